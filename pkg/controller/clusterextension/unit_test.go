package clusterextension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// unit is a Reconciler with fake clients, for tests of single phases and of what wakes an extension.
type unit struct {
	*Reconciler
	t     *testing.T
	clock *testclock.FakePassiveClock
	store *catalog.Store
}

func givenUnit(t *testing.T, calls interceptor.Funcs, objs ...client.Object) *unit {
	t.Helper()
	scheme := proofs.Scheme()
	require.NoError(t, olmv1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).WithObjects(objs...).
		WithStatusSubresource(&olmv1.ClusterExtension{}).WithInterceptorFuncs(calls).Build()
	u := &unit{t: t, clock: testclock.NewFakePassiveClock(time.Now()), store: &catalog.Store{}}
	u.Reconciler = &Reconciler{
		excess:  &excess.Timers[types.UID]{},
		Options: Options{Client: c, Live: c, Catalogs: u.store, Proofs: proofs.Keys(), Clock: u.clock, Namespace: "remit"}, memory: &memory{}, orphaning: &kit.Orphaning{},
	}
	return u
}

// extension returns a ClusterExtension that installs the package of the same name.
func extension(name string, edits ...func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	ext.Spec.Namespace = "ns"
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: name}}
	for _, edit := range edits {
		edit(ext)
	}
	return ext
}

// owner returns the owner of the objects of an extension.
func (u *unit) owner(ext *olmv1.ClusterExtension) ownerutil.Owner {
	owner := assess.Owner(ext, "")
	owner.Proofs = u.Proofs
	return owner
}

// begin begins a run, as Reconcile does.
func (u *unit) begin(ext *olmv1.ClusterExtension) *run {
	u.t.Helper()
	s := newRun(u.Reconciler, ext)
	s.owner = u.owner(ext)
	return s
}
