package controller

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// longRole returns the encoding of a role with as many rules as Remit evaluates.
func longRole(tb testing.TB) []byte {
	tb.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "long"}}
	for i := range rbac.MaxRoleRules {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{fmt.Sprint("pod-", i)}})
	}
	raw, err := role.Marshal()
	require.NoError(tb, err)
	return raw
}

// received returns the role as the cache stores it.
func received(tb testing.TB, raw []byte, to func(any) (any, error), finalizer string) *rbacv1.Role {
	tb.Helper()
	role := &rbacv1.Role{}
	require.NoError(tb, role.Unmarshal(raw))
	role.Finalizers = []string{finalizer}
	out, err := to(role)
	require.NoError(tb, err)
	require.Same(tb, role, out)
	return role
}

// A tenant can change a finalizer of a role 20 times a second. Each event took 6 MiB until all handlers had seen it.
func TestEventsShareRulesThatDoNotChange(t *testing.T) {
	raw, to := longRole(t), transform(nil)
	first, second := received(t, raw, to, "a"), received(t, raw, to, "b")
	require.Len(t, second.Rules, rbac.MaxRoleRules)
	require.Same(t, &first.Rules[0], &second.Rules[0])
	require.Equal(t, []string{"b"}, second.Finalizers)
	require.Equal(t, "pod-7", second.Rules[7].ResourceNames[0])
}

// Handlers read the rules of an earlier state while the informer processes the next one.
func TestSharedRulesAreNotChanged(t *testing.T) {
	raw, to := longRole(t), transform(nil)
	first, done := received(t, raw, to, "a"), make(chan bool)
	go func() {
		defer close(done)
		for range 5 {
			_ = first.DeepCopy()
		}
	}()
	for range 5 {
		received(t, raw, to, "b")
	}
	<-done
}

// BenchmarkReceivedRole measures what an informer does for an event of a role whose rules do not change.
func BenchmarkReceivedRole(b *testing.B) {
	raw, to := longRole(b), transform(nil)
	last := received(b, raw, to, "a")
	b.ReportAllocs()
	for b.Loop() {
		next := received(b, raw, to, "b")
		runtime.KeepAlive(last) // as a cache does
		last = next
	}
}
