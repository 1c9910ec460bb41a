package scopedcache_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// BenchmarkRead compares cached reads with those of controller-runtime's cache, in one run: of one namespace with 20 Secrets,
// with one claim, and with a thousand claims of objects besides.
func BenchmarkRead(b *testing.B) {
	config := rest.CopyConfig(controlplane.Shared(b).Config())
	admin, err := client.New(config, client.Options{})
	require.NoError(b, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	require.NoError(b, admin.Create(b.Context(), ns))
	for i := range 20 {
		require.NoError(b, admin.Create(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: fmt.Sprint("s", i)}, Data: map[string][]byte{"a": make([]byte, 1000)}}))
	}
	theirs, err := cache.New(config, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{ns.Name: {}}}}})
	require.NoError(b, err)
	single, err := cache.New(config, cache.Options{})
	require.NoError(b, err)
	contenders := []struct {
		name  string
		cache cache.Cache
	}{{"controller-runtime/cluster", single}, {"controller-runtime/namespaces", theirs}, {"scopedcache/1", scoped(b, config, ns.Name, 0)}, {"scopedcache/1000", scoped(b, config, ns.Name, 1000)}}
	for _, c := range contenders {
		go func() { _ = c.cache.Start(b.Context()) }()
		require.True(b, c.cache.WaitForCacheSync(b.Context()))
		require.NoError(b, c.cache.List(b.Context(), &corev1.SecretList{}, client.InNamespace(ns.Name)))
	}
	for _, c := range contenders {
		b.Run("Get/"+c.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				out := &corev1.Secret{}
				for pb.Next() {
					if err := c.cache.Get(b.Context(), client.ObjectKey{Namespace: ns.Name, Name: "s7"}, out); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	for _, c := range contenders {
		b.Run("List/"+c.name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := c.cache.List(b.Context(), &corev1.SecretList{}, client.InNamespace(ns.Name)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// scoped returns a cache with a claim of a namespace, and of a number of single objects in others.
func scoped(b *testing.B, config *rest.Config, namespace string, objects int) *scopedcache.Cache {
	b.Helper()
	c, err := scopedcache.New(config, scopedcache.Options{})
	require.NoError(b, err)
	c.Ensure(b.Context(), owner("bench"), secrets(scopedcache.Namespace(namespace)))
	for i := range objects {
		c.Ensure(b.Context(), owner("bench"), secrets(scopedcache.Object(fmt.Sprint("other", i%100), fmt.Sprint("s", i))))
	}
	return c
}
