package scopedcache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// The steps of the demonstration in examples/memcached, without Pods and with ConfigMaps as custom resources.
func TestT47Demonstration(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	one, two, denied := w.namespace(), w.namespace(), w.namespace()
	w.grantOn("", "configmaps", "", all)
	verbs := []string{"list", "watch", "create"}
	for _, ns := range []string{one, two} {
		w.grantOn("apps", "deployments", ns, verbs)
	}
	_, made := w.managed(scopedcache.Options{
		Linger: -1, Primary: []client.Object{&corev1.ConfigMap{}}, RecheckPeriod: time.Second,
		Retry: scopedcache.Retry{Initial: 100 * time.Millisecond, Max: 500 * time.Millisecond},
	}, cache.Options{})
	create := func(ns string) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sample"}}
		require.NoError(t, w.admin.Create(t.Context(), cm))
		return cm
	}
	deployed := func(ns string) {
		t.Helper()
		w.eventually(func(ct *assert.CollectT) {
			assert.NoError(ct, w.admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "sample"}, &appsv1.Deployment{}))
		})
	}
	watched := func(namespaces ...string) {
		t.Helper()
		want := []string{}
		for _, ns := range namespaces {
			want = append(want, ns+"/sample")
		}
		w.eventually(func(ct *assert.CollectT) { assert.ElementsMatch(ct, want, w.log.open("deployments")) })
	}
	create(one)
	create(two)
	deployed(one)
	deployed(two)
	watched(one, two)
	cm := create(denied)
	watched(one, two)

	revoke := w.grantOn("apps", "deployments", denied, verbs)
	deployed(denied)
	watched(one, two, denied)
	revoke()
	watched(one, two)
	of, err := scopedcache.OwnerOf(cm, w.admin.Scheme())
	require.NoError(t, err)
	require.NotEmpty(t, made.Status(of))
	require.NoError(t, w.admin.Delete(t.Context(), cm))
	w.eventually(func(ct *assert.CollectT) { assert.Empty(ct, made.Status(of)) })
	w.log.take("deployments")
	w.grantOn("apps", "deployments", denied, verbs)
	<-time.After(2 * time.Second)
	require.NotContains(t, w.log.take("deployments"), "watch deployments "+denied+"/sample", "the Deployment is no longer claimed")
}

// An owner claims ten thousand single objects in one namespace. At most Concurrency initial lists run at a time, and no watches
// remain after the claims are released.
func TestThousandsOfObjectsInOneNamespace(t *testing.T) {
	t.Parallel()
	const objects = 10_000
	w := given(t, func(o *scopedcache.Options) { o.CoalesceObjects = 100 })
	x := w.namespace()
	w.grant(x, all)
	o := owner("o")
	claims := make([]scopedcache.Claim, 0, objects)
	for i := range objects {
		claims = append(claims, secrets(scopedcache.Object(x, fmt.Sprint("s", i))))
	}
	w.Ensure(t.Context(), o, claims...)
	w.watches(x)
	_, err := w.read(x, "s9999")
	require.Error(t, err)
	w.secret(x, "s9999")
	w.eventually(func(ct *assert.CollectT) {
		_, err := w.read(x, "s9999")
		assert.NoError(ct, err)
	})
	w.Release(o)
	w.watches()
}

// docs/scopedcache.md contains parts of this test.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grant("", all)
	bar := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: "bar"}}
	require.NoError(t, w.admin.Create(t.Context(), bar))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "namespace-bar"}}
	require.NoError(t, w.admin.Create(t.Context(), ns))
	w.Cleanup(func() { require.NoError(t, w.admin.Delete(context.Background(), ns)) })
	w.secret("namespace-bar", "secret-bar")
	c, err := client.New(w.config, client.Options{Cache: &client.CacheOptions{Reader: w.Cache}})
	require.NoError(t, err)
	scoped := w.Cache
	var secret corev1.Secret
	var secrets corev1.SecretList

	owner, err := scopedcache.OwnerOf(bar, c.Scheme())
	require.NoError(t, err)
	ctx := scopedcache.WithOwner(t.Context(), owner)

	err = c.Get(ctx, client.ObjectKey{Namespace: "namespace-bar", Name: "secret-bar"}, &secret) // claims only this object
	require.NoError(t, err)
	err = c.List(ctx, &secrets, client.InNamespace("namespace-bar")) // claims the namespace
	require.NoError(t, err)
	err = c.List(ctx, &secrets) // claims the whole cluster
	require.NoError(t, err)

	require.Len(t, scoped.Status(owner), 3)
	session := scoped.Begin(owner)
	defer session.Abort() // keeps all claims if the reconcile fails
	err = c.Get(session.Context(t.Context()), client.ObjectKey{Namespace: "namespace-bar", Name: "secret-bar"}, &secret)
	require.NoError(t, err)
	session.Commit()
	require.Equal(t, scopedcache.Object("namespace-bar", "secret-bar"), scoped.Status(owner)[0].Claim.Scope)
	require.Len(t, scoped.Status(owner), 1)
}
