package extension

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// pasteGrant applies the grant in the report as the cluster administrator, and returns the time before its last change.
func (s *scene) pasteGrant() (complete time.Time) {
	s.t.Helper()
	version := func(obj *unstructured.Unstructured) string {
		live := obj.DeepCopy()
		require.NoError(s.t, client.IgnoreNotFound(cluster.Client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), live)))
		return live.GetResourceVersion()
	}
	for _, obj := range s.Reported(preflight.FileGrant) {
		old, now := version(obj), time.Now()
		if cluster.Apply(s.t, obj.DeepCopy()); version(obj) != old {
			complete = now
		}
	}
	return complete
}

// oneRound asserts that the API server refused no request sent as the identity, logs the time from the grant to the first
// write, and returns the number of requests. Requests up to the last one that was refused because the API server's authorizer
// observed the grant later than Remit are not counted.
func (s *scene) oneRound(from int64, granted, complete time.Time) int {
	s.t.Helper()
	all := s.Requests(from)
	for _, e := range all {
		require.NotEqual(s.t, http.StatusConflict, e.Response.Code, e.String())
	}
	all, err := audit.AfterGrant(all, complete)
	require.NoError(s.t, err)
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
