package clusterextension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// opened records the identities for which clients were requested.
type opened struct {
	Clients
	as []scoped.Identity
}

func (o *opened) As(_ context.Context, identity scoped.Identity) (client.WithWatch, error) {
	o.as = append(o.as, identity)
	return nil, nil
}

func installer(uid types.UID) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "installer", UID: uid}}
}

func asInstaller(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" }

// Everything that was decided from the cache is about the extension and the account that the API server has when the client is
// created. Otherwise, nothing may be sent.
func TestTheExtensionAndItsAccountAreReadAgainBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	changed := func(edit func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
		return extension("a", asInstaller, edit)
	}
	for name, tc := range map[string]struct {
		live []client.Object
		want error
	}{
		"unchanged":                     {[]client.Object{changed(func(*olmv1.ClusterExtension) {}), installer("1")}, nil},
		"a recreated account":           {[]client.Object{changed(func(*olmv1.ClusterExtension) {}), installer("2")}, errStale},
		"a deleted account":             {[]client.Object{changed(func(*olmv1.ClusterExtension) {})}, errStale},
		"a deleted extension":           {[]client.Object{installer("1")}, errStale},
		"a recreated extension":         {[]client.Object{changed(func(e *olmv1.ClusterExtension) { e.UID = "another" }), installer("1")}, errStale},
		"a changed extension":           {[]client.Object{changed(func(e *olmv1.ClusterExtension) { e.Generation = 2 }), installer("1")}, errStale},
		"an extension in its deletion":  {[]client.Object{changed(deleting), installer("1")}, errStale},
		"a status that another one set": {[]client.Object{changed(func(e *olmv1.ClusterExtension) { e.ResourceVersion = "99" }), installer("1")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ext := extension("a", asInstaller)
			u := givenUnit(t, interceptor.Funcs{}, ext, installer("1"))
			u.Live = givenUnit(t, interceptor.Funcs{}, tc.live...).Client
			clients := &opened{}
			u.Clients = clients
			s := u.begin(ext)
			var err error
			s.identity, _, err = s.lookUp(t.Context(), s.Client)
			require.NoError(t, err)
			_, err = openClients(t.Context(), s)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				require.Empty(t, clients.as)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []scoped.Identity{{Account: scoped.Account{Namespace: "ns", Name: "installer", UID: "1"}}}, clients.as)
		})
	}
}

func deleting(ext *olmv1.ClusterExtension) {
	now := metav1.Now()
	ext.DeletionTimestamp, ext.Finalizers = &now, []string{names.FinalizerExtension}
}

// The finalizer is set and removed as the controller identity, from a cache that may be outdated.
func TestTheFinalizerOfAChangedExtensionIsNotWritten(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{}, extension("a"))
	cached, live := &olmv1.ClusterExtension{}, &olmv1.ClusterExtension{}
	require.NoError(t, u.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, cached))
	require.NoError(t, u.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, live))
	live.Finalizers = []string{"example.com/another"}
	require.NoError(t, u.Client.Update(t.Context(), live))
	require.ErrorIs(t, u.begin(cached).setFinalizer(t.Context(), true), errStale)
	require.NoError(t, u.Client.Get(t.Context(), client.ObjectKey{Name: "a"}, live))
	require.Equal(t, []string{"example.com/another"}, live.Finalizers)
	require.NoError(t, u.begin(live).setFinalizer(t.Context(), true))
}

// What an extension has installed, and with which content, is not known of another one that has its name.
func TestARecreatedExtensionIsNotRemembered(t *testing.T) {
	t.Parallel()
	earlier := extension("a")
	u := givenUnit(t, interceptor.Funcs{}, earlier)
	u.watches, u.confirmer, u.issued = newWatches(nil, nil, nil, nil), &preflight.Confirmer{}, &hooks.Memory{}
	u.begin(earlier)
	u.memory.passFor("a", "hash").tried = true
	u.memory.Change("a", func(is *remembered) { is.content = &content{name: "op.v1"} })
	u.begin(earlier)
	require.True(t, u.memory.passFor("a", "hash").tried)
	u.begin(extension("a", func(ext *olmv1.ClusterExtension) { ext.UID = "another" }))
	require.Nil(t, u.memory.Get("a").content)
	require.False(t, u.memory.passFor("a", "hash").tried)
}

// What one identity was allowed to write must be tried again as another one.
func TestAnotherIdentityBeginsAnotherPass(t *testing.T) {
	t.Parallel()
	s := givenUnit(t, interceptor.Funcs{}).begin(extension("a"))
	known := map[string]bool{}
	for _, identity := range []scoped.Identity{
		{Extension: "a"},
		{Account: scoped.Account{Namespace: "ns", Name: "installer", UID: "1"}},
		{Account: scoped.Account{Namespace: "ns", Name: "installer", UID: "2"}},
		{Account: scoped.Account{Namespace: "ns", Name: "another", UID: "1"}},
	} {
		s.identity = identity
		require.False(t, known[s.hashOf()], "%s", identity)
		known[s.hashOf()] = true
	}
}

// The removal of permissions is decided from the cache, and confirmed by the API server.
func TestPermissionsAreRemovedOnlyOfTheCurrentExtension(t *testing.T) {
	t.Parallel()
	ext := extension("a")
	for name, tc := range map[string]struct {
		edit func(*olmv1.ClusterExtension)
		want bool
	}{
		"unchanged":          {func(*olmv1.ClusterExtension) {}, true},
		"recreated":          {func(e *olmv1.ClusterExtension) { e.UID = "another" }, false},
		"with another spec":  {func(e *olmv1.ClusterExtension) { e.Generation = 2 }, false},
		"in its deletion":    {deleting, false},
		"with kept excesses": {func(e *olmv1.ClusterExtension) { e.Annotations = map[string]string{names.AnnotationKeepExcess: "true"} }, false},
	} {
		u := givenUnit(t, interceptor.Funcs{}, extension("a", tc.edit))
		got, err := u.begin(ext).removesExcess(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
	got, err := givenUnit(t, interceptor.Funcs{}).begin(ext).removesExcess(t.Context())
	require.NoError(t, err)
	require.False(t, got, "deleted")
}
