package rbac

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"
	"weak"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Unchanged lets successive states of an RBAC object share a long list of rules or subjects that did not change. A tenant can
// change the labels of a role with 10,000 rules many times a second: without it, each event takes the memory of all rules until the
// last handler has seen it, and each handler compares them one by one. The zero value is ready to use, also concurrently.
type Unchanged struct {
	mu       sync.Mutex
	rules    kept[rbacv1.PolicyRule]
	subjects kept[rbacv1.Subject]
}

// Take removes the rules or subjects from an object that a client has received, if the last state of the object had the same. After the
// caller has changed the rest, it calls restore, which adds those of the last state, or remembers those that are in the object then. The
// caller must neither change them afterwards nor use another pointer to the object.
func (u *Unchanged) Take(obj any) (restore func()) {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return take(u, &u.rules, [3]string{kindRole, o.Namespace, o.Name}, o, func(o *rbacv1.Role) *[]rbacv1.PolicyRule { return &o.Rules }, sumOfRules)
	case *rbacv1.ClusterRole:
		return take(u, &u.rules, [3]string{kindClusterRole, "", o.Name}, o, func(o *rbacv1.ClusterRole) *[]rbacv1.PolicyRule { return &o.Rules }, sumOfRules)
	case *rbacv1.RoleBinding:
		return take(u, &u.subjects, [3]string{kindRoleBinding, o.Namespace, o.Name}, o, func(o *rbacv1.RoleBinding) *[]rbacv1.Subject { return &o.Subjects }, sumOfSubjects)
	case *rbacv1.ClusterRoleBinding:
		return take(u, &u.subjects, [3]string{kindClusterRoleBinding, "", o.Name}, o, func(o *rbacv1.ClusterRoleBinding) *[]rbacv1.Subject { return &o.Subjects }, sumOfSubjects)
	}
	return func() {}
}

// minSum is the size of a list, in bytes of text and lengths, from which it is remembered. Comparing a shorter one takes microseconds.
const minSum = 4 << 10

type sum [sha256.Size]byte

// kept contains the last long list of each object, by kind, namespace and name. It does not keep deleted objects in memory.
type kept[E any] struct {
	last map[[3]string]state[E]
	// sweep is the number of entries at which those of deleted objects are removed.
	sweep int
}

// state is the sum of a list as it was received, and what is kept of it; nil if the object is no longer used.
type state[E any] struct {
	sum  sum
	list func() []E
}

func take[T, E any](u *Unchanged, all *kept[E], key [3]string, obj *T, in func(*T) *[]E, sumOf func([]E) (sum, int)) (restore func()) {
	list := in(obj)
	received, size := sumOf(*list)
	if size < minSum {
		return func() {}
	}
	u.mu.Lock()
	last, found := all.last[key]
	u.mu.Unlock()
	var same []E
	if found && last.sum == received {
		if same = last.list(); same != nil {
			*list = nil
		}
	}
	return func() {
		if same != nil {
			*list = same
		}
		ref := weak.Make(obj)
		u.mu.Lock()
		defer u.mu.Unlock()
		all.remember(key, state[E]{received, func() []E {
			if obj := ref.Value(); obj != nil {
				return *in(obj)
			}
			return nil
		}})
	}
}

// minSweep is the least number of entries at which those of deleted objects are removed.
const minSweep = 64

func (k *kept[E]) remember(key [3]string, s state[E]) {
	if k.last == nil {
		k.last, k.sweep = map[[3]string]state[E]{}, minSweep
	}
	k.last[key] = s
	if len(k.last) < k.sweep {
		return
	}
	for key, s := range k.last {
		if s.list() == nil {
			delete(k.last, key)
		}
	}
	k.sweep = max(minSweep, 2*len(k.last))
}

// summing writes texts with their lengths to a hash, so that different lists of texts have different sums.
type summing struct {
	hash   hash.Hash
	buffer []byte
	size   int
}

func (s *summing) number(n int) {
	s.buffer = binary.LittleEndian.AppendUint64(s.buffer, uint64(n)) //nolint:gosec // a length
	s.size += 8
}

func (s *summing) text(texts ...string) {
	for _, text := range texts {
		s.number(len(text))
		s.buffer = append(s.buffer, text...)
		s.size += len(text)
		if len(s.buffer) >= minSum {
			s.flush()
		}
	}
}

func (s *summing) flush() {
	_, _ = s.hash.Write(s.buffer) // never returns an error
	s.buffer = s.buffer[:0]
}

func (s *summing) sum() (out sum, size int) {
	s.flush()
	s.hash.Sum(out[:0])
	return out, s.size
}

func sumOfRules(rules []rbacv1.PolicyRule) (sum, int) {
	s := summing{hash: sha256.New()}
	for i := range rules {
		for _, list := range listsOf(&rules[i]) {
			s.number(len(list))
			s.text(list...)
		}
	}
	return s.sum()
}

func sumOfSubjects(subjects []rbacv1.Subject) (sum, int) {
	s := summing{hash: sha256.New()}
	for i := range subjects {
		s.text(subjects[i].Kind, subjects[i].APIGroup, subjects[i].Name, subjects[i].Namespace)
	}
	return s.sum()
}

func listsOf(r *rbacv1.PolicyRule) [5][]string {
	return [5][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs}
}

// SameContent reports whether two states of an RBAC object grant the same; it returns false for other objects. It takes almost no time if
// they share their lists.
func SameContent(before, after any) bool {
	switch was := before.(type) {
	case *rbacv1.Role:
		is, ok := after.(*rbacv1.Role)
		return ok && equalRules(was.Rules, is.Rules)
	case *rbacv1.ClusterRole:
		is, ok := after.(*rbacv1.ClusterRole)
		return ok && equalRules(was.Rules, is.Rules) && equality.Semantic.DeepEqual(was.AggregationRule, is.AggregationRule)
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
	default:
		return false
	}
	return RoleRefOf(before) == RoleRefOf(after) && (shared(SubjectsOf(before), SubjectsOf(after)) || slices.Equal(SubjectsOf(before), SubjectsOf(after)))
}

// shared reports whether two lists are the same memory.
func shared[E any](a, b []E) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// equalRules compares rules without reflection, which takes 30 times as long.
func equalRules(was, is []rbacv1.PolicyRule) bool {
	return shared(was, is) || slices.EqualFunc(was, is, func(a, b rbacv1.PolicyRule) bool {
		lists, others := listsOf(&a), listsOf(&b)
		for i := range lists {
			if !slices.Equal(lists[i], others[i]) {
				return false
			}
		}
		return true
	})
}
