package rbac

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/test/env/cputime"
)

// The tests compare one query of n values with "times" queries of n/times values. With nested scans, the large query
// takes "times" times as long as the small queries; with linear work, both take about the same time. Caches and other
// processes change the ratio by a factor of less than "most".
const n, times, most = 20_000, 100, 10

// TestTimeIsLinearInTheRules compares the CPU time of one large query with that of many small ones.
func TestTimeIsLinearInTheRules(t *testing.T) {
	for shape, of := range adversarial() {
		for name, work := range map[string]func(granted, wanted []rbacv1.PolicyRule){
			"Missing": func(granted, wanted []rbacv1.PolicyRule) { Missing(granted, wanted) },
			"Covers":  func(granted, wanted []rbacv1.PolicyRule) { NewSet(granted).Covers(wanted) },
			"Minimal": func(granted, wanted []rbacv1.PolicyRule) { Minimal(slices.Concat(granted, wanted)) },
			"folded":  func(granted, wanted []rbacv1.PolicyRule) { folded(oneStar(slices.Concat(granted, wanted))) },
			"Uncovered": func(granted, wanted []rbacv1.PolicyRule) {
				NewSet(granted).Uncovered(slices.Concat(wanted, tooLarge()))
			},
		} {
			t.Run(name+"/"+shape, func(t *testing.T) {
				small, large := func() { granted, wanted := of(n / times); work(granted, wanted) }, func() { granted, wanted := of(n); work(granted, wanted) }
				often := cputime.Of(func() {
					for range times {
						small()
					}
				})
				once := cputime.Of(large)
				require.Less(t, once, most*max(often, 5*time.Millisecond), "%v for %d times %d values and %v for %d", often, times, n/times, once, n)
			})
		}
	}
}

// tooLarge returns a single rule that expands to more than MaxAtoms.
func tooLarge() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: values("g", 100), Resources: values("r", 100), Verbs: values("v", 10)}}
}

// TestTimeOfAnRBACEventIsLinearInItsSize compares the CPU time of one event for a large object with that of many events
// for small ones: a tenant that writes large bindings or Roles in one namespace must not delay the events of other
// namespaces.
func TestTimeOfAnRBACEventIsLinearInItsSize(t *testing.T) {
	for name, of := range events() {
		t.Run(name, func(t *testing.T) {
			i := &Interests[string]{}
			smallBefore, smallAfter := of(n / times)
			before, after := of(n)
			often := cputime.Of(func() {
				for range times {
					i.Concerned(smallBefore, smallAfter)
				}
			})
			once := cputime.Of(func() { i.Concerned(before, after) })
			require.Less(t, once, most*max(often, 5*time.Millisecond), "%v for %d times %d and %v for %d", often, times, n/times, once, n)
		})
	}
}

// events returns, by the name of a change, functions that return an object with n subjects, rules or names before and
// after the change.
func events() map[string]func(n int) (before, after any) {
	bindingOf := func(from, n int) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "b"}}
		for i := range n {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "evil", Name: fmt.Sprintf("%05d", from+i)})
		}
		return b
	}
	roleOf := func(from, n int) *rbacv1.Role {
		r := role("evil", "r")
		for i := range n {
			r.Rules = append(r.Rules, on("get", "", "secrets", fmt.Sprint(from+i)))
		}
		return r
	}
	return map[string]func(n int) (before, after any){
		"label of a binding": func(n int) (any, any) {
			after := bindingOf(0, n)
			after.Labels = map[string]string{"x": "y"}
			return bindingOf(0, n), after
		},
		"subjects reordered": func(n int) (any, any) {
			after := bindingOf(0, n)
			slices.Reverse(after.Subjects)
			return bindingOf(0, n), after
		},
		"half of the subjects replaced": func(n int) (any, any) { return bindingOf(0, n), bindingOf(n/2, n) },
		"another role": func(n int) (any, any) {
			after := bindingOf(0, n)
			after.RoleRef.Name = "other"
			return bindingOf(0, n), after
		},
		"a new binding": func(n int) (any, any) { return nil, bindingOf(0, n) },
		"rules":         func(n int) (any, any) { return roleOf(0, n), roleOf(1, n) },
		"many names": func(n int) (any, any) {
			before, after := role("evil", "r"), role("evil", "r")
			before.Rules = []rbacv1.PolicyRule{on("get", "", "secrets", values("n", n)...)}
			after.Rules = []rbacv1.PolicyRule{on("get", "", "secrets", append(values("n", n), "m")...)}
			return before, after
		},
	}
}
