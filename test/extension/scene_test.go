package extension

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// scene is a ClusterExtension whose name is also the name of its package and its ClusterCatalog.
type scene struct {
	*env.Extension
	t *testing.T
}

// given creates a namespace and a ClusterCatalog with two versions of an operator. The second version needs one more
// permission.
func given(t *testing.T) *scene {
	t.Helper()
	s := &scene{cluster.Extension(t), t}
	cluster.ServeCatalog(t, images, s.Name, env.Releases(
		s.Name+".v1.0.0 stable",
		s.Name+".v2.0.0 stable replaces="+s.Name+".v1.0.0 reads=secrets",
	))
	return s
}

// install creates the ClusterExtension with version 1.0.0. account is the name of its ServiceAccount; "" means none.
func (s *scene) install(account string) {
	s.t.Helper()
	ext := env.NewClusterExtension(s.Name, s.Name)
	ext.Spec.ServiceAccount.Name = account
	ext.Spec.Source.Catalog.Version = "1.0.0"
	s.Create(ext)
	s.t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), ext) })
}

// upgrade selects version 2.0.0.
func (s *scene) upgrade() {
	s.t.Helper()
	ext := s.Get()
	before := ext.DeepCopy()
	ext.Spec.Source.Catalog.Version = "2.0.0"
	require.NoError(s.t, cluster.Client.Patch(s.t.Context(), ext, client.MergeFrom(before)))
}

// nothingWritten asserts that no request as the identity could have changed an object. RunTests verifies that the program's
// controller identity writes nothing on its behalf either.
func (s *scene) nothingWritten(from int64) {
	s.t.Helper()
	for _, e := range s.Requests(from) {
		require.False(s.t, e.IsWrite(), e.String())
	}
}

// pasteGrant applies the grant in the report as the cluster administrator, and returns when the API server's authorizer had
// observed all of it.
func (s *scene) pasteGrant() (observed time.Time) {
	s.t.Helper()
	objs := s.Reported(preflight.FileGrant)
	cluster.Apply(s.t, objs...)
	identity := s.Identity()
	for _, obj := range objs {
		rules, _, err := unstructured.NestedSlice(obj.Object, "rules") // bindings have none
		require.NoError(s.t, err)
		for _, r := range rules {
			rule := &rbacv1.PolicyRule{}
			content, ok := r.(map[string]any)
			require.True(s.t, ok)
			require.NoError(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, rule))
			cluster.AwaitAllowed(s.t, requestOf(identity, obj.GetNamespace(), *rule))
		}
	}
	return time.Now()
}

// requestOf returns a request of the identity that the rule allows.
func requestOf(identity scoped.Identity, namespace string, rule rbacv1.PolicyRule) authorizationv1.SubjectAccessReviewSpec {
	out := authorizationv1.SubjectAccessReviewSpec{User: identity.Username(), Groups: identity.Groups()}
	if len(rule.NonResourceURLs) > 0 {
		out.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
		return out
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	out.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		out.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	return out
}

// oneRound asserts that the API server refused no request sent as the identity, logs the time from the grant to the first
// write, and returns the number of requests. If the API server's authorizer observed the grant later than Remit, requests up to
// the last one that it refused before then are not counted.
func (s *scene) oneRound(from int64, granted, observed time.Time) int {
	s.t.Helper()
	all := s.Requests(from)
	for i, e := range slices.Backward(all) {
		if e.Response.Code == http.StatusForbidden && e.Received.Before(observed) {
			all = all[i+1:]
			break
		}
	}
	for _, e := range all {
		require.NotEqual(s.t, http.StatusForbidden, e.Response.Code, e.String())
		require.NotEqual(s.t, http.StatusConflict, e.Response.Code, e.String())
	}
	first := slices.IndexFunc(all, audit.Event.Wrote)
	require.GreaterOrEqual(s.t, first, 0, "nothing was written")
	s.t.Logf("%s: %d requests; first write %s after the grant", s.Identity(), len(all), all[first].Received.Sub(granted).Round(time.Millisecond))
	return len(all)
}

// exists reports whether the operator's Deployment exists.
func (s *scene) exists() bool {
	s.t.Helper()
	d := &unstructured.Unstructured{}
	d.SetAPIVersion("apps/v1")
	d.SetKind("Deployment")
	err := cluster.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.Name, Name: s.Name}, d)
	if !apierrors.IsNotFound(err) {
		require.NoError(s.t, err)
	}
	return err == nil
}

// bind makes a subject a cluster administrator, and returns a function that removes the binding.
func (s *scene) bind(subject rbacv1.Subject) (unbind func()) {
	s.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("test-%s-%s", s.Name, rand.String(4))},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{subject}}
	s.Create(binding)
	return func() { require.NoError(s.t, cluster.Client.Delete(context.Background(), binding)) }
}
