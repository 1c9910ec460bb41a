package scopedcache_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

const user = "bench"

// BenchmarkPermissions measures how quickly a cache of 100 namespaces reacts to RBAC changes: the time from the API
// server's response to a revocation until a read returns a *DeniedError, and from its response to a grant until a read
// succeeds.
func BenchmarkPermissions(b *testing.B) {
	f := start(b, 100, 100)
	f.role(b, "secrets", "", "secrets")
	f.role(b, "rbac", rbacv1.GroupName, "*")
	everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "rbac"}, RoleRef: roleRef("rbac"), Subjects: subjects()}
	require.NoError(b, f.admin.Create(b.Context(), everywhere))
	for _, namespace := range f.namespaces {
		require.NoError(b, f.admin.Create(b.Context(), binding(namespace)))
	}
	for _, mode := range []struct {
		name    string
		options scopedcache.Options
	}{
		{"WatchRBAC", scopedcache.Options{WatchRBAC: true, RecheckPeriod: -1}},
		{"RecheckPeriod=1s", scopedcache.Options{RecheckPeriod: time.Second}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			for b.Loop() {
				f.follow(b, mode.options)
			}
		})
	}
}

func (f *fixture) follow(b *testing.B, options scopedcache.Options) {
	b.Helper()
	sent := &requests{}
	config := rest.CopyConfig(f.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	config.Wrap(sent.wrap)
	c, err := scopedcache.New(config, options)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	for _, key := range f.owned {
		c.Ensure(ctx, ownerOf(key), scopedcache.Claim{Kind: &corev1.Secret{}, Scope: scopedcache.Namespace(key.Namespace)})
	}
	for _, key := range f.owned {
		_, err := c.Wait(ctx, ownerOf(key))
		require.NoError(b, err)
		require.NoError(b, c.Get(ctx, key, &corev1.Secret{}))
	}
	sent.refused.Store(0)
	const changes = 200
	var revoked, granted []time.Duration
	for i := range changes {
		key := f.owned[i%len(f.owned)]
		require.NoError(b, f.admin.Delete(ctx, binding(key.Namespace)))
		revoked = append(revoked, f.until(b, c, key, apierrors.IsForbidden))
		require.NoError(b, f.admin.Create(ctx, binding(key.Namespace)))
		granted = append(granted, f.until(b, c, key, func(err error) bool { return err == nil }))
	}
	b.ReportMetric(quantile(revoked, 0.5), "ms-revocation-p50")
	b.ReportMetric(quantile(revoked, 0.99), "ms-revocation-p99")
	b.ReportMetric(quantile(granted, 0.5), "ms-grant-p50")
	b.ReportMetric(quantile(granted, 0.99), "ms-grant-p99")
	b.ReportMetric(float64(sent.refused.Load())/changes, "refused/revocation")
	cancel()
	require.NoError(b, <-ended)
}

// until returns the time until a read of a Secret returns an expected error.
func (f *fixture) until(b *testing.B, c client.Reader, key client.ObjectKey, expected func(error) bool) time.Duration {
	b.Helper()
	begun := time.Now()
	wait(b, time.Millisecond, "the change of permissions", func() bool { return expected(c.Get(b.Context(), key, &corev1.Secret{})) })
	return time.Since(begun)
}

func (f *fixture) role(b *testing.B, name, group, resource string) {
	b.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}}
	require.NoError(b, f.admin.Create(b.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}))
}

func roleRef(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

func binding(namespace string) client.Object {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secrets"}, RoleRef: roleRef("secrets"), Subjects: subjects()}
}
