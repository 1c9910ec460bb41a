package clusterextension

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
)

func namesIn(requests []reconcile.Request) []string {
	var out []string
	for _, req := range requests {
		out = append(out, req.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The update does not wake the extension, because it changes only finalizers.
func TestTheWatchRecordsOrphaningDeletions(t *testing.T) {
	t.Parallel()
	deleting := extension("op")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	orphaning := deleting.DeepCopy()
	orphaning.Finalizers = []string{metav1.FinalizerOrphanDependents}
	u := givenUnit(t, interceptor.Funcs{})
	u.watches = newWatches(nil, nil, nil, nil)
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	added := handlers.Of(t, deleting, u.Client.Scheme(), func(mgr ctrl.Manager) error { return u.SetupWithManager(mgr, none, none) })
	for !u.orphaning.Includes(deleting) {
		select {
		case handler := <-added:
			handler.OnUpdate(deleting, orphaning)
		case <-time.After(10 * time.Second):
			require.Fail(t, "no watch records orphaning deletions")
		}
	}
}

// Anyone who may create objects can copy owner references and labels, but not the proof.
func TestOnlyItsOwnObjectsWakeAnExtension(t *testing.T) {
	t.Parallel()
	ext := extension("a")
	u := givenUnit(t, interceptor.Funcs{}, ext)
	u.interests = &rbac.Interests[ctrl.Request]{}
	owner := u.owner(ext)
	role := func(edits ...func(*rbacv1.Role)) *rbacv1.Role {
		out := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
			Namespace: "elsewhere", Name: "r", UID: "uid-r", CreationTimestamp: metav1.Now(), OwnerReferences: []metav1.OwnerReference{owner.Reference()}, Labels: owner.Labels(),
		}}
		for _, edit := range edits {
			edit(out)
		}
		return out
	}
	proven := func(r *rbacv1.Role) { proofs.Mark(r, owner) }
	for name, tc := range map[string]struct {
		before, after *rbacv1.Role
		want          []string
	}{
		"with an owner reference":                {nil, role(func(r *rbacv1.Role) { r.Labels = nil }), nil},
		"with all marks but the proof":           {nil, role(), nil},
		"with the proof of another object":       {nil, role(proven, func(r *rbacv1.Role) { r.Name = "copy" }), nil},
		"of an earlier extension":                {nil, role(func(r *rbacv1.Role) { r.CreationTimestamp = metav1.NewTime(time.Now().Add(-2 * time.Hour)) }, proven), nil},
		"created by the extension":               {nil, role(proven), []string{"a"}},
		"kept when the extension is deleted":     {nil, role(proven, func(r *rbacv1.Role) { r.OwnerReferences = nil }), []string{"a"}},
		"deleted":                                {role(proven), nil, []string{"a"}},
		"without the marks, which it had before": {role(proven), role(func(r *rbacv1.Role) { r.Labels, r.OwnerReferences = nil, nil }), []string{"a"}},
	} {
		var before, after client.Object
		if tc.before != nil {
			before = tc.before
		}
		if tc.after != nil {
			after = tc.after
		}
		require.Equal(t, tc.want, namesIn(u.Concerned(t.Context(), before, after)), name)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "crd", CreationTimestamp: metav1.Now(), OwnerReferences: []metav1.OwnerReference{owner.Reference()}}}
	require.Empty(t, u.usingKind(t.Context(), crd))
	proofs.Mark(crd, owner)
	require.Equal(t, []string{"a"}, namesIn(u.usingKind(t.Context(), crd)))
}

// The label contains only the beginning of a long name.
func TestOwnersWithLongNamesAreWoken(t *testing.T) {
	t.Parallel()
	ext := extension("a23456789-123456789-123456789-123456789-123456789-123456789-123456789")
	u := givenUnit(t, interceptor.Funcs{}, ext)
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "op", OwnerReferences: []metav1.OwnerReference{u.owner(ext).Reference()}}}
	proofs.Mark(sa, u.owner(ext))
	require.NotEqual(t, ext.Name, sa.Labels[names.LabelExtensionName])
	require.Equal(t, []string{ext.Name}, namesIn(u.ownersOf(t.Context(), sa)))
}

func TestAServiceAccountWakesTheExtensionsThatLookedItUp(t *testing.T) {
	t.Parallel()
	synthetic, named := extension("synthetic"), extension("named", func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" })
	u := givenUnit(t, interceptor.Funcs{}, synthetic, named)
	u.interests = &rbac.Interests[ctrl.Request]{}
	created := func(namespace, name string) []string {
		return namesIn(u.Concerned(t.Context(), nil, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	require.Equal(t, []string{"named"}, created("ns", "installer"), "regardless of any run")
	require.Empty(t, created("other", "installer"))
	before := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "installer", UID: "before"}}
	after := before.DeepCopy()
	require.Empty(t, namesIn(u.Concerned(t.Context(), before, after)))
	after.UID = "after"
	require.Equal(t, []string{"named"}, namesIn(u.Concerned(t.Context(), before, after)), "recreated while the watch was interrupted")

	s := u.begin(synthetic)
	sa := apply.Reference(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "ns", "op")
	require.NoError(t, s.use(&render.Rendered{Objects: []render.Object{{Unstructured: sa}}}))
	s.noteAccount(types.NamespacedName{Namespace: "webhooks"})
	for range 2 { // during the run, and afterwards
		require.Equal(t, []string{"synthetic"}, created("ns", "op"), "the new ServiceAccount may collide with that of the bundle")
		require.Equal(t, []string{"synthetic"}, created("webhooks", "any"), "a webhook may need the permissions of the new ServiceAccount")
		require.Empty(t, created("ns", "unrelated"))
		require.NoError(t, s.conclude(t.Context(), proceed(), nil))
	}
	require.NoError(t, u.begin(synthetic).conclude(t.Context(), proceed(), nil))
	require.Empty(t, created("ns", "op"), "the last run did not look up the ServiceAccount")
}

// withPackages publishes the content of a catalog.
func (u *unit) withPackages(name string, packages ...string) {
	snap := &catalog.Snapshot{Key: types.NamespacedName{Name: name}, Digest: time.Now().String(), Packages: map[string]*catalog.Package{}}
	for _, pkg := range packages {
		snap.Packages[pkg] = &catalog.Package{
			Name: pkg, Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{pkg + ".v1": {Name: pkg + ".v1"}}}},
			Bundles: map[string]*catalog.Bundle{pkg + ".v1": {Name: pkg + ".v1", Package: pkg, Version: "1.0.0", Image: "images.test/" + pkg + ":v1"}},
		}
	}
	snap.Reader = unread{}
	u.store.Put(snap)
}

// resolve runs the phases that use catalogs, and ends the run.
func (u *unit) resolve(ext *olmv1.ClusterExtension) {
	u.t.Helper()
	s := u.begin(ext)
	out, err := s.runPhases(u.t.Context(), resolveBundle, readBundle)
	require.NoError(u.t, err)
	require.NoError(u.t, s.conclude(u.t.Context(), out, nil))
}

func clusterCatalog(name, group string) *olmv1.ClusterCatalog {
	return &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": group}}}
}

func from(group, pkg string) func(*olmv1.ClusterExtension) {
	return func(ext *olmv1.ClusterExtension) {
		ext.Spec.Source.Catalog.PackageName = pkg
		ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"group": group}}
	}
}

func TestACatalogWakesTheExtensionsThatItMayAffect(t *testing.T) {
	t.Parallel()
	inX, inY, lost := extension("in-x", from("x", "op")), extension("in-y", from("y", "op")), extension("lost", from("x", "no-such-package"))
	x, y, empty := clusterCatalog("cat-x", "x"), clusterCatalog("cat-y", "y"), clusterCatalog("empty", "x")
	u := givenUnit(t, interceptor.Funcs{}, inX, inY, lost, x, y, empty)
	u.withPackages("cat-x", "op", "other")
	u.withPackages("cat-y", "op")
	u.withPackages("empty")
	changed := func(name string) []string {
		return namesIn(u.Using(t.Context(), catalog.Change{Catalog: types.NamespacedName{Name: name}}))
	}
	u.begin(inX)
	require.Equal(t, []string{"in-x"}, changed("empty"), "a run that has not ended may have read the catalogs before the change")
	for _, ext := range []*olmv1.ClusterExtension{inX, inY, lost} {
		u.resolve(ext)
	}
	require.Equal(t, []string{"in-x", "lost"}, changed("cat-x"))
	require.Equal(t, []string{"in-y", "lost"}, changed("cat-y"), "the status of an extension without a bundle describes what exists")
	require.Equal(t, []string{"lost"}, changed("empty"))
	require.Equal(t, []string{"lost"}, namesIn(u.usingCatalog(t.Context(), empty)))
	u.withPackages("empty", "op")
	require.Equal(t, []string{"in-x", "lost"}, changed("empty"), "the catalog contains the package now")
	u.withPackages("cat-x", "other")
	require.Equal(t, []string{"in-x", "lost"}, changed("cat-x"), "the catalog contained the package")
	u.store.Delete(types.NamespacedName{Name: "cat-x"})
	require.NoError(t, u.Client.Delete(t.Context(), x))
	require.Equal(t, []string{"in-x", "lost"}, changed("cat-x"), "the catalog was deleted")
	require.Equal(t, []string{"in-x", "lost"}, namesIn(u.usingCatalog(t.Context(), clusterCatalog("new", "x"))), "extensions may use the new catalog instead of other catalogs")
}

// unread is a Reader for bundles whose images have not been read yet.
type unread struct{ catalog.ContentReader }

func (unread) Content(_ context.Context, _, _, bundle string) (*catalog.Content, error) {
	return nil, &catalog.NotUnpacked{Bundle: bundle}
}

func TestAnAttemptToReadAnImageWakesTheExtensionsThatRequestedIt(t *testing.T) {
	t.Parallel()
	a, b := extension("a"), extension("b")
	u := givenUnit(t, interceptor.Funcs{}, a, b, clusterCatalog("cat", ""))
	u.withPackages("cat", "a", "b")
	attempt := func(pkg string) []string {
		return namesIn(u.Using(t.Context(), catalog.Change{Catalog: types.NamespacedName{Name: "cat"}, Image: "images.test/" + pkg + ":v1"}))
	}
	u.resolve(a)
	u.resolve(b)
	require.Equal(t, []string{"a"}, attempt("a"))
	require.Equal(t, []string{"b"}, attempt("b"))
	require.Empty(t, attempt("c"))

	s := u.begin(a)
	require.Equal(t, []string{"a"}, attempt("a"), "the run has not ended")
	require.NoError(t, s.conclude(t.Context(), waiting("for something else"), nil))
	require.Empty(t, attempt("a"), "the last run did not request it")
}
