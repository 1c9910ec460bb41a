package rbac

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A question of n values is compared with "times" questions of n/times values: it takes "times" times as long where lists
// are searched within lists, and about as long where they are not. Caches and neighbors on the machine change the ratio by
// a small factor, which most leaves room for.
const n, times, most = 20_000, 100, 10

// TestWorkGrowsAsTheRulesDo compares the CPU time of one large question with that of many small ones.
func TestWorkGrowsAsTheRulesDo(t *testing.T) {
	for shape, of := range adversarial() {
		for name, work := range map[string]func(held, wanted []rbacv1.PolicyRule){
			"Missing": func(held, wanted []rbacv1.PolicyRule) { Missing(held, wanted) },
			"Covers":  func(held, wanted []rbacv1.PolicyRule) { NewSet(held).Covers(wanted) },
			"Minimal": func(held, wanted []rbacv1.PolicyRule) { Minimal(slices.Concat(held, wanted)) },
			"folded":  func(held, wanted []rbacv1.PolicyRule) { folded(oneStar(slices.Concat(held, wanted))) },
			"Beyond":  func(held, wanted []rbacv1.PolicyRule) { NewSet(held).Uncovered(slices.Concat(wanted, beyondAll())) },
		} {
			t.Run(name+"/"+shape, func(t *testing.T) {
				small, large := func() { held, wanted := of(n / times); work(held, wanted) }, func() { held, wanted := of(n); work(held, wanted) }
				often := cpu(func() {
					for range times {
						small()
					}
				})
				once := cpu(large)
				require.Less(t, once, most*max(often, 5*time.Millisecond), "%v for %d times %d values and %v for %d", often, times, n/times, once, n)
			})
		}
	}
}

// beyondAll is a rule that alone is too large to be broken up.
func beyondAll() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: values("g", 100), Resources: values("r", 100), Verbs: values("v", 10)}}
}

// TestAnRBACEventTakesWorkInProportionToItsSize is TestWorkGrowsAsTheRulesDo for the handlers of the informers: whoever
// may write a binding or a Role in one namespace must not stop everybody's wake-ups.
func TestAnRBACEventTakesWorkInProportionToItsSize(t *testing.T) {
	for name, of := range events() {
		t.Run(name, func(t *testing.T) {
			i := &Interests[string]{}
			smallBefore, smallAfter := of(n / times)
			before, after := of(n)
			often := cpu(func() {
				for range times {
					i.Concerned(smallBefore, smallAfter)
				}
			})
			once := cpu(func() { i.Concerned(before, after) })
			require.Less(t, once, most*max(often, 5*time.Millisecond), "%v for %d times %d and %v for %d", often, times, n/times, once, n)
		})
	}
}

// events are changes of objects of n parts.
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
		"the label of a binding": func(n int) (any, any) {
			after := bindingOf(0, n)
			after.Labels = map[string]string{"x": "y"}
			return bindingOf(0, n), after
		},
		"the subjects change places": func(n int) (any, any) {
			after := bindingOf(0, n)
			slices.Reverse(after.Subjects)
			return bindingOf(0, n), after
		},
		"half of the subjects": func(n int) (any, any) { return bindingOf(0, n), bindingOf(n/2, n) },
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

// cpu is the least time of some runs that the thread was running.
func cpu(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := time.Duration(1<<63 - 1)
	for range 3 {
		runtime.GC()
		start := threadTime()
		work()
		best = min(best, threadTime()-start)
	}
	return best
}

func threadTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
