package clusterextension

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/proofs"
)

// An operator may run as a ServiceAccount with permissions that are older than the ServiceAccount only if the install created it.
func TestOnlyAServiceAccountOfTheInstallWasMadeByIt(t *testing.T) {
	t.Parallel()
	ext := extension("a")
	for name, tc := range map[string]struct {
		mark func(ownerutil.Owner, client.Object)
		want bool
	}{
		"of another user": {func(ownerutil.Owner, client.Object) {}, false},
		"with the labels": {func(o ownerutil.Owner, sa client.Object) { sa.SetLabels(o.Labels()) }, false},
		"with an owner reference": {func(o ownerutil.Owner, sa client.Object) {
			sa.SetOwnerReferences([]metav1.OwnerReference{o.Reference()})
		}, false},
		"created by the install": {func(o ownerutil.Owner, sa client.Object) { proofs.Mark(sa, o) }, true},
		"created by an earlier one": {func(o ownerutil.Owner, sa client.Object) {
			sa.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-2 * time.Hour)))
			proofs.Mark(sa, o)
		}, false},
	} {
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "uid-sa", CreationTimestamp: metav1.Now()}}
		tc.mark(givenUnit(t, interceptor.Funcs{}).owner(ext), sa)
		s := givenUnit(t, interceptor.Funcs{}, sa).begin(ext)
		desired := apply.Reference(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "ns", "op")
		s.steps = []step.Step{{Object: desired, Owner: s.owner}}
		_, cached := s.madeAt(t.Context(), "op")
		require.Equal(t, tc.want, cached, "%s: from the cache", name)
		live, err := apply.Live(t.Context(), s.Client, desired)
		require.NoError(t, err)
		s.states[desired] = execute.State{Live: live}
		_, read := s.madeAt(t.Context(), "op")
		require.Equal(t, tc.want, read, "%s: from the API server", name)
	}
}

// Deleting a CustomResourceDefinition would delete its custom resources, although the status lists those of an earlier version. An
// APIService without its operator would make the API server's discovery fail, so that no namespace could be deleted.
func TestWhatAnUpgradeRemoves(t *testing.T) {
	t.Parallel()
	d := givenDeletion(t, interceptor.Funcs{}, unchanged)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "earlier", UID: "uid-r"}}
	proofs.Mark(role, d.owner(d.ext))
	forged := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "forged", Labels: role.Labels}}
	require.NoError(t, d.Client.Create(t.Context(), role))
	require.NoError(t, d.Client.Create(t.Context(), forged))
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.things.example.com", UID: "uid-api"}}
	proofs.Mark(api, d.owner(d.ext))
	require.NoError(t, d.Client.Create(t.Context(), api))
	for _, group := range []string{rbacv1.GroupName, apiextensionsv1.GroupName} { // served
		require.NoError(t, d.Client.Create(t.Context(), &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
			Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1"}}))
	}
	d.ext.Status.Inventory = append(d.ext.Status.Inventory,
		olmv1.InventoryObject{Group: rbacv1.GroupName, Kind: "Role", Namespace: "ns", Name: "another"},
		olmv1.InventoryObject{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition", Name: "things.example.com"})
	objs, err := d.begin(d.ext).others(t.Context())
	require.NoError(t, err)
	var got []string
	for _, obj := range objs {
		got = append(got, apply.Describe(obj))
	}
	require.Equal(t, []string{"APIService v1.things.example.com", "Deployment ns/op", "Role ns/earlier"}, got)
}

// The inventory can name any object. The report asks only for permission to remove those of the lineage, which are read once.
func TestTheReportAsksOnlyForPermissionToRemoveWhatTheExtensionOwns(t *testing.T) {
	t.Parallel()
	reads := 0
	d := givenDeletion(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, ok := obj.(*metav1.PartialObjectMetadata); ok {
			if reads++; key.Name == "unreadable" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no"))
			}
		}
		return c.Get(ctx, key, obj, opts...)
	}}, unchanged)
	for _, gv := range []string{"apps", ""} { // served
		require.NoError(t, client.IgnoreAlreadyExists(d.Client.Create(t.Context(), &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + gv},
			Spec: apiregistrationv1.APIServiceSpec{Group: gv, Version: "v1"}})))
	}
	victims := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "db-password"}}
	require.NoError(t, d.Client.Create(t.Context(), victims))
	own := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "own"}}
	proofs.Mark(own, d.owner(d.ext))
	require.NoError(t, d.Client.Create(t.Context(), own))
	d.ext.Status.Inventory = nil
	for _, key := range []client.ObjectKey{client.ObjectKeyFromObject(victims), client.ObjectKeyFromObject(own), {Namespace: "ns", Name: "gone"}, {Namespace: "ns", Name: "unreadable"}} {
		d.ext.Status.Inventory = append(d.ext.Status.Inventory, olmv1.InventoryObject{Kind: "Secret", Namespace: key.Namespace, Name: key.Name})
	}
	for range 2 {
		s := d.begin(d.ext)
		plan, err := hooks.New(hooks.Input{CSV: &operatorsv1alpha1.ClusterServiceVersion{}, Owner: s.owner})
		require.NoError(t, err)
		s.identity, s.hash, s.rendered = scoped.Identity{Extension: d.ext.Name}, "hash", &render.Rendered{Hooks: plan}
		s.resolved.Bundle = &catalog.Bundle{Name: "op.v2", Version: "2.0.0"}
		needs, err := s.removals(t.Context())
		require.NoError(t, err)
		var got []string
		for _, n := range needs {
			got = append(got, n.Object)
		}
		require.Equal(t, []string{"Secret ns/own", "CustomResourceDefinition things.example.com"}, got, "the conversion of the latter is reset")
		require.Equal(t, 4, reads, "objects that were read once are not read again")
	}
}

// An object needs no write only as long as it is the one that was written, with everything that shows whose it is.
func TestAnObjectThatWasReplacedIsNotInTheDesiredState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*rbacv1.Role)
		want bool
	}{
		"unchanged":                                  {func(r *rbacv1.Role) { r.ResourceVersion = "5" }, true},
		"with another status":                        {func(*rbacv1.Role) {}, true},
		"with another spec":                          {func(r *rbacv1.Role) { r.Generation = 2 }, false},
		"of another user, with its name":             {func(r *rbacv1.Role) { r.UID = "another" }, false},
		"that this one replaced, in a slow cache":    {func(r *rbacv1.Role) { r.UID, r.ResourceVersion = "another", "4" }, true},
		"without its proof":                          {func(r *rbacv1.Role) { r.Annotations = nil }, false},
		"without its owner reference":                {func(r *rbacv1.Role) { r.OwnerReferences = nil }, false},
		"with an owner reference to another's":       {func(r *rbacv1.Role) { r.OwnerReferences[0].UID = "another" }, false},
		"with another label":                         {func(r *rbacv1.Role) { r.Labels["a"] = "c" }, false},
		"in its deletion":                            {func(r *rbacv1.Role) { now := metav1.Now(); r.DeletionTimestamp = &now }, false},
		"unchanged, except that it is being deleted": {func(r *rbacv1.Role) { now := metav1.Now(); r.ResourceVersion, r.DeletionTimestamp = "5", &now }, false},
	} {
		s := givenUnit(t, interceptor.Funcs{}).begin(extension("a"))
		live := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "uid-r", ResourceVersion: "6", Generation: 1,
			OwnerReferences: []metav1.OwnerReference{s.owner.Reference()}}}
		proofs.Mark(live, s.owner)
		live.Labels["a"] = "b"
		desired := apply.Reference(rbacv1.SchemeGroupVersion.WithKind("Role"), "ns", "r")
		desired.SetLabels(map[string]string{"a": "b"})
		desired.SetOwnerReferences([]metav1.OwnerReference{s.owner.Reference()})
		written := &mark{uid: "uid-r", version: 5, generation: 1}
		tc.edit(live)
		require.Equal(t, tc.want, written.matches(live, desired, s), name)
	}
}

// holding returns an API server that responds to no watch. ended receives the field selector of each watch that has ended.
func holding(t *testing.T) (s *server, ended chan string) {
	t.Helper()
	s, ended = &server{}, make(chan string, 10)
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.watches = append(s.watches, req.URL.Path+" "+req.URL.Query().Get("fieldSelector"))
		s.mu.Unlock()
		<-req.Context().Done()
		ended <- req.URL.Query().Get("fieldSelector")
	}))
	t.Cleanup(s.Close)
	return s, ended
}

// Each identity sees only what it may watch itself, and its watches end with the last extension that uses it.
func TestACacheBelongsToOneIdentity(t *testing.T) {
	t.Parallel()
	s, ended := holding(t)
	w := givenWatches(t, s, func(schema.GroupKind) error { return nil })
	as := func(name, uid string) scoped.Identity {
		return scoped.Identity{Account: scoped.Account{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	}
	claim := func(extensionName string, identity scoped.Identity, objects ...watched) {
		t.Helper()
		require.NoError(t, w.claim(t.Context(), extension(extensionName), identity, objects))
	}
	cacheOf := func(name string) *identityCache { return w.caches[w.users[name]] }
	claim("a", as("installer", "1"), single("ConfigMap", "x"))
	claim("b", as("installer", "1"), single("ConfigMap", "y"))
	claim("c", as("installer", "2"), single("ConfigMap", "z"))
	claim("d", as("another", "1"), single("ConfigMap", "z"))
	require.Same(t, cacheOf("a"), cacheOf("b"))
	require.NotSame(t, cacheOf("a"), cacheOf("c"), "the account was recreated")
	require.NotSame(t, cacheOf("a"), cacheOf("d"))
	require.Len(t, w.caches, 3)
	s.awaitWatch(t, "metadata.name=x")
	s.awaitWatch(t, "metadata.name=y")

	t.Log("an extension that changes its identity leaves the cache of the earlier one")
	claim("a", as("another", "1"), single("ConfigMap", "x"))
	require.Same(t, cacheOf("a"), cacheOf("d"))
	require.Len(t, w.caches, 3)
	w.release("b")
	require.Len(t, w.caches, 2)
	got := map[string]bool{<-ended: true, <-ended: true}
	require.Equal(t, map[string]bool{"metadata.name=x": true, "metadata.name=y": true}, got)
}
