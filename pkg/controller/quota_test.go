package controller

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/alone"
)

// Memory in MiB. other is a program's without the objects of tenants (docs/adr/0066), and limit the GOMEMLIMIT of remit-olm.
const mostOfBinding, mostOfRole, other, limit = 5, 6, 205, 921

// keptOf returns the memory that a cache needs for an object of RBAC with as many entries as the API server stores, in bytes.
func keptOf[T client.Object](t *testing.T, fill func() T) int64 {
	t.Helper()
	stored, ok := any(fill()).(interface{ Marshal() ([]byte, error) })
	require.True(t, ok)
	data, err := stored.Marshal()
	require.NoError(t, err)
	require.Less(t, len(data), 3<<19, "the API server does not store more")
	kept, before := make([]client.Object, 4), heap()
	for i := range kept {
		var empty client.Object
		switch any(*new(T)).(type) {
		case *rbacv1.RoleBinding:
			o := &rbacv1.RoleBinding{}
			require.NoError(t, o.Unmarshal(data))
			empty = o
		default:
			o := &rbacv1.Role{}
			require.NoError(t, o.Unmarshal(data))
			empty = o
		}
		kept[i] = cached(t, TrimForOLM, empty)
	}
	used := (heap() - before) / int64(len(kept))
	runtime.KeepAlive(kept)
	t.Logf("%d bytes stored, %.1f MiB kept", len(data), float64(used)/(1<<20))
	return used
}

func TestTheLargestRBACObjectsTakeAsMuchAsTheDocumentationSays(t *testing.T) {
	if !alone.Is(t) {
		return
	}
	short := func(i int) string { return strconv.FormatInt(int64(i), 36) }
	require.Less(t, keptOf(t, func() *rbacv1.RoleBinding {
		out := &rbacv1.RoleBinding{}
		for i := range 48_000 {
			out.Subjects = append(out.Subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: short(i), Namespace: "a"})
		}
		return out
	}), int64(mostOfBinding<<20))
	require.Less(t, keptOf(t, func() *rbacv1.Role {
		out := &rbacv1.Role{}
		for i := range 9_900 {
			rule := rbacv1.PolicyRule{Verbs: []string{"a", "b", "c", "d"}, APIGroups: []string{"x" + short(i), "b"}, Resources: []string{"p", "q"}}
			for n := range 12 {
				rule.ResourceNames = append(rule.ResourceNames, short(i*12+n))
			}
			out.Rules = append(out.Rules, rule)
		}
		return out
	}), int64(mostOfRole<<20))
}

// The recommended quota was 200 Roles and 200 RoleBindings and more, with which one namespace could use 4 GiB.
func TestANamespaceWithTheRecommendedQuotaFitsIntoTheLimit(t *testing.T) {
	page, err := os.ReadFile("../../docs/tasks/bound-a-tenant.md")
	require.NoError(t, err)
	each := map[string]int{
		"operatorgroups.operators.coreos.com": 5, "subscriptions.operators.coreos.com": 5, "installplans.operators.coreos.com": 5,
		"clusterserviceversions.operators.coreos.com": 8, "catalogsources.operators.coreos.com": 5, "operatorconditions.operators.coreos.com": 5,
		"serviceaccounts": 2, "services": 2, "deployments.apps": 2,
		"roles.rbac.authorization.k8s.io": mostOfRole, "rolebindings.rbac.authorization.k8s.io": mostOfBinding,
	}
	sum, found := 0, 0
	for _, line := range regexp.MustCompile(`count/([a-z0-9.]+): (\d+)\n`).FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(line[2])
		require.NoError(t, err)
		if mib, ok := each[line[1]]; ok {
			sum, found = sum+n*mib, found+1
		}
	}
	require.Len(t, each, found)
	require.LessOrEqual(t, sum, limit-other)
	require.Contains(t, string(page), "| together | | | "+strconv.Itoa(sum)+" MiB |")
}
