package replicas

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// extended is an operator that a ClusterExtension installs.
type extended struct{ *env.Extension }

// serveExtensions serves the package for ClusterExtensions, without the CustomResourceDefinition: only one ClusterExtension
// could own it.
func serveExtensions(t *testing.T, images *registry.Server) {
	t.Helper()
	cluster.ServeCatalog(t, images, "replicas", env.Releases(releases...))
}

// newExtended creates the namespace, the enrollment and the grant of a ClusterExtension.
func newExtended(t *testing.T) extended {
	t.Helper()
	x := cluster.Extension(t)
	user := x.User()
	x.Create(scoped.ExtensionEnrollment(user, cluster.Home, scoped.ImpersonationConstrained)...)
	x.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "test-" + x.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{user.Subject()}})
	return extended{x}
}

func (x extended) install() {
	x.T.Helper()
	ext := env.NewClusterExtension(x.Name, pkg)
	ext.Spec.Source.Catalog.Version = "1.0.0"
	x.Create(ext)
}

func (x extended) installed() { x.Installed("1.0.0") }

func (x extended) upgrade() {
	x.T.Helper()
	ext := x.Get()
	before := ext.DeepCopy()
	ext.Spec.Source.Catalog.Version = "2.0.0"
	require.NoError(x.T, cluster.Client.Patch(x.T.Context(), ext, client.MergeFrom(before)))
}

func (x extended) upgraded() { x.Installed("2.0.0") }

func (x extended) remove() {
	x.T.Helper()
	require.NoError(x.T, cluster.Client.Delete(x.T.Context(), x.Get()))
}

// removed does not wait, because the final comparison of the cluster waits for all removals.
func (x extended) removed() {}
