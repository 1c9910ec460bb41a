package preflight_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// A Role of 190,000 names takes 17 MiB when it is prepared for queries, and an install can have a thousand target namespaces.
func TestPermissionsArePreparedForOneScopeAtATime(t *testing.T) {
	large := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	for i := range 190_000 {
		large.ResourceNames = append(large.ResourceNames, fmt.Sprint(i))
	}
	pods := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	const scopes = 8
	var needs []preflight.Need
	for i := range 2 * scopes {
		needs = append(needs, preflight.Need{Namespace: fmt.Sprint("t", i%scopes), Rules: pods, Cause: fmt.Sprint(i)})
	}
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, lookups := live(), int64(0), 0
	report := preflight.Examine(scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t0", Name: "acct"}), needs, func(namespace string) rbac.Permissions {
		if lookups++; lookups == scopes {
			most = live() - before
		}
		return rbac.Permissions{Namespace: namespace, Rules: []rbacv1.PolicyRule{large}}
	})
	require.Len(t, report.Findings, 2*scopes)
	require.Equal(t, scopes, lookups)
	require.Less(t, most>>20, int64(40), "MiB")
}
