package clusterextension

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// withSteps adds n objects of a kind to the steps of a run.
func (s *run) withSteps(n int, kind, namespace string) {
	group, kind, ok := strings.Cut(kind, " ")
	if !ok {
		group, kind = "", group
	}
	for i := range n {
		obj := apply.Reference(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, namespace, fmt.Sprintf("%s-%d", strings.ToLower(kind), i))
		s.steps = append(s.steps, step.Step{Object: obj})
	}
}

func reads(resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: strings.Fields(resources), ResourceNames: names, Verbs: []string{"list", "watch"}}
}

// having returns the permissions of an identity that has the rules in every scope.
func having(rules ...rbacv1.PolicyRule) *rbac.Recent[string] {
	return rbac.NewRecent(func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace, Rules: rules} })
}

func TestManyObjectsOfAKindShareAWatch(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{})
	given := func(rules ...rbacv1.PolicyRule) *run {
		s := u.begin(extension("a"))
		s.permissions = having(rules...)
		return s
	}
	count := func(s *run) (out map[string]int) {
		out = map[string]int{}
		scopes, excess := s.scopes()
		for _, scope := range scopes {
			out[scope.String()]++
		}
		require.Empty(t, excess)
		return out
	}
	s := given(reads("configmaps secrets priorityclasses"))
	s.withSteps(maxSingle, "Secret", "ns")
	require.Len(t, count(s), maxSingle)
	s.withSteps(1, "ConfigMap", "ns")
	require.Len(t, count(s), maxSingle+1, "each kind has its own count")
	s.withSteps(maxSingle, "ConfigMap", "ns")
	got := count(s)
	require.Equal(t, maxSingle+1, got[scopedcache.Namespace("ns").String()])
	require.Len(t, got, maxSingle+1)
	s = given(reads("priorityclasses"))
	s.withSteps(maxSingle+1, "scheduling.k8s.io PriorityClass", "")
	require.Equal(t, map[string]int{scopedcache.Cluster().String(): maxSingle + 1}, count(s))

	s = given()
	s.withSteps(maxSingle+1, "ConfigMap", "ns")
	var names []string
	for _, st := range s.steps {
		names = append(names, st.Object.GetName())
	}
	require.Empty(t, count(s), "the identity is not allowed to watch ConfigMaps")
	s.permissions = having(reads("configmaps", names...))
	require.Len(t, count(s), maxSingle+1, "the identity is not allowed to watch all ConfigMaps of the namespace")
}

func TestTheNumberOfWatchesIsLimited(t *testing.T) {
	t.Parallel()
	s := givenUnit(t, interceptor.Funcs{}).begin(extension("a"))
	s.identity.Extension = "a"
	s.withSteps(maxWatches+5, "ConfigMap", "ns")
	s.withSteps(2, "apps Deployment", "ns")
	var names []string
	for _, st := range s.steps {
		names = append(names, st.Object.GetName())
	}
	s.permissions = having(reads("configmaps deployments", names...))
	scopes, excess := s.scopes()
	require.Len(t, scopes, maxWatches)
	require.Contains(t, scopes, s.steps[len(s.steps)-1].Object, "the install waits for the status of Deployments")
	require.Len(t, excess, 7)
	require.Len(t, s.unnoticed(), 1)
	require.Contains(t, s.unnoticed()[0], "changes to 7 objects are not detected, because a ClusterExtension has at most 100 watches")
	require.Contains(t, s.unnoticed()[0], "ConfigMap ns/configmap-98")

	s.permissions = having(reads("configmaps deployments"))
	scopes, excess = s.scopes()
	require.Len(t, scopes, len(s.steps))
	require.Empty(t, excess)
	require.Empty(t, s.unnoticed())
}
