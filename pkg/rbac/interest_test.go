package rbac

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// world contains the RBAC objects of a cluster in stores that tests can modify.
type world struct {
	stores map[string]toolscache.Indexer
	Listers
}

func newWorld(tb testing.TB, objects ...runtime.Object) *world {
	tb.Helper()
	w := &world{stores: map[string]toolscache.Indexer{}}
	for _, kind := range []string{kindRole, kindRoleBinding, kindClusterRole, kindClusterRoleBinding} {
		w.stores[kind] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		require.NoError(tb, w.stores[kind].AddIndexers(BindingIndexers()))
	}
	w.Listers = Listers{
		Roles:               rbacv1listers.NewRoleLister(w.stores[kindRole]),
		RoleBindings:        NewRoleBindingLister(w.stores[kindRoleBinding]),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(w.stores[kindClusterRole]),
		ClusterRoleBindings: NewClusterRoleBindingLister(w.stores[kindClusterRoleBinding]),
	}
	for _, obj := range objects {
		w.put(tb, obj)
	}
	return w
}

func (w *world) store(obj runtime.Object) toolscache.Indexer {
	switch obj.(type) {
	case *rbacv1.Role:
		return w.stores[kindRole]
	case *rbacv1.RoleBinding:
		return w.stores[kindRoleBinding]
	case *rbacv1.ClusterRole:
		return w.stores[kindClusterRole]
	}
	return w.stores[kindClusterRoleBinding]
}

// put creates or replaces an object and returns what an informer passes to its handlers.
func (w *world) put(tb testing.TB, obj runtime.Object) (before, after any) {
	tb.Helper()
	before, found, err := w.store(obj).Get(obj)
	require.NoError(tb, err)
	require.NoError(tb, w.store(obj).Update(obj))
	if !found {
		return nil, obj
	}
	return before, obj
}

func (w *world) remove(tb testing.TB, obj runtime.Object) (before, after any) {
	tb.Helper()
	before, found, err := w.store(obj).Get(obj)
	require.NoError(tb, err)
	require.NoError(tb, w.store(obj).Delete(obj))
	if !found {
		return nil, nil
	}
	return before, nil
}

// question is a query that a controller makes with listers.
type question func(t testing.TB, l Listers) any

func askEffectiveRules(s Subject, namespace string) question {
	return func(t testing.TB, l Listers) any {
		rules, err := l.EffectiveRules(s, namespace)
		require.NoError(t, err)
		return Compact(rules)
	}
}

func askScopes(s Subject) question {
	return func(t testing.TB, l Listers) any {
		scopes, err := l.Scopes(s)
		require.NoError(t, err)
		return scopes
	}
}

func askRulesOf(kind, namespace, name string) question {
	return func(t testing.TB, l Listers) any {
		rules, err := l.RulesOf(ref(kind, name), namespace)
		if apierrors.IsNotFound(err) {
			return "not found"
		}
		require.NoError(t, err)
		return fmt.Sprint(rules)
	}
}

// ask tracks one query and returns its answer.
func ask(t testing.TB, i *Interests[string], who string, w *world, q question) any {
	t.Helper()
	l, done := i.Track(who, w.Listers)
	defer done()
	return q(t, l)
}

func TestAChangeConcernsKeysThatLookedItUp(t *testing.T) {
	acct, allUsers := account("t1", "acct"), group("system:authenticated")
	me := ServiceAccount("t1", "acct")
	asked := map[string]question{
		"account in t1":        askEffectiveRules(me, "t1"),
		"account in t2":        askEffectiveRules(me, "t2"),
		"account cluster-wide": askEffectiveRules(me, ClusterScope),
		"other in t1":          askEffectiveRules(ServiceAccount("t1", "other"), "t1"),
		"unrelated in t3":      askEffectiveRules(ServiceAccount("t3", "acct"), "t3"),
		"scopes of account":    askScopes(me),
		"Role r of t1":         askRulesOf(kindRole, "t1", "r"),
		"Role gone of t1":      askRulesOf(kindRole, "t1", "gone"),
		"ClusterRole c":        askRulesOf(kindClusterRole, "t1", "c"),
		"ClusterRole unbound":  askRulesOf(kindClusterRole, "t1", "unbound"),
	}
	start := []runtime.Object{
		role("t1", "r", "get :pods"), clusterRole("c", "get :pods"), clusterRole("unbound", "get :pods"), clusterRole("d", "list :pods"),
		binding("t1", "b", ref(kindRole, "r"), acct), binding("t2", "b", ref(kindClusterRole, "c"), acct),
		binding("t1", "dangling", ref(kindRole, "gone"), acct), clusterBinding("cb", ref(kindClusterRole, "d"), acct),
	}
	inT1 := []string{"account in t1", "scopes of account"}
	ofAccount := []string{"account cluster-wide", "account in t1", "account in t2"}
	labeled := role("t1", "r", "get :pods")
	labeled.Labels = map[string]string{"a": "b"}
	for _, row := range []struct {
		name   string
		change func(w *world) (before, after any)
		want   []string
	}{
		{"a RoleBinding to the account is created", func(w *world) (any, any) { return w.put(t, binding("t1", "new", ref(kindRole, "r"), acct)) }, inT1},
		{"by user name", func(w *world) (any, any) { return w.put(t, binding("t1", "new", ref(kindRole, "r"), user(me.User))) }, inT1},
		{"by name without namespace", func(w *world) (any, any) {
			return w.put(t, binding("t1", "new", ref(kindRole, "r"), account("", "acct")))
		}, inT1},
		{"to all accounts of its namespace", func(w *world) (any, any) {
			return w.put(t, binding("t1", "new", ref(kindRole, "r"), group("system:serviceaccounts:t1")))
		}, []string{"account in t1", "other in t1", "scopes of account"}},
		{"to all users", func(w *world) (any, any) { return w.put(t, binding("t1", "new", ref(kindRole, "r"), allUsers)) },
			[]string{"account in t1", "other in t1", "scopes of account"}},
		{"to all users in the cluster", func(w *world) (any, any) {
			return w.put(t, clusterBinding("new", ref(kindClusterRole, "c"), allUsers))
		},
			append(slices.Clone(ofAccount), "other in t1", "unrelated in t3")},
		{"to another account", func(w *world) (any, any) {
			return w.put(t, binding("t1", "new", ref(kindRole, "r"), account("t1", "third")))
		}, nil},
		{"to an account of the same name in another namespace", func(w *world) (any, any) {
			return w.put(t, binding("t1", "new", ref(kindRole, "r"), account("t2", "acct")))
		}, nil},
		{"to the account in a namespace without lookups", func(w *world) (any, any) { return w.put(t, binding("t9", "new", ref(kindRole, "r"), acct)) }, []string{"scopes of account"}},
		{"another subject is added", func(w *world) (any, any) {
			return w.put(t, binding("t1", "b", ref(kindRole, "r"), acct, account("t1", "other")))
		}, []string{"other in t1"}},
		{"the account is removed", func(w *world) (any, any) {
			return w.put(t, binding("t1", "b", ref(kindRole, "r"), account("t1", "third")))
		}, inT1},
		{"the binding is recreated with another role", func(w *world) (any, any) { return w.put(t, binding("t1", "b", ref(kindRole, "x"), acct)) }, inT1},
		{"subjects reordered", func(w *world) (any, any) {
			w.put(t, binding("t1", "two", ref(kindRole, "r"), acct, allUsers))
			return w.put(t, binding("t1", "two", ref(kindRole, "r"), allUsers, acct))
		}, nil},
		{"the RoleBinding is deleted", func(w *world) (any, any) { return w.remove(t, binding("t1", "b", ref(kindRole, "r"))) }, inT1},
		{"the ClusterRoleBinding is deleted", func(w *world) (any, any) { return w.remove(t, clusterBinding("cb", ref(kindClusterRole, "d"))) }, ofAccount},
		{"a Role's rules change", func(w *world) (any, any) { return w.put(t, role("t1", "r", "list :pods")) }, []string{"Role r of t1", "account in t1"}},
		{"a Role's labels change", func(w *world) (any, any) { return w.put(t, labeled) }, nil},
		{"a Role of the same name in another namespace", func(w *world) (any, any) { return w.put(t, role("t2", "r", "list :pods")) }, nil},
		{"a missing Role is created", func(w *world) (any, any) { return w.put(t, role("t1", "gone", "list :pods")) }, []string{"Role gone of t1", "account in t1"}},
		{"a missing Role is created without rules", func(w *world) (any, any) { return w.put(t, role("t1", "gone")) }, []string{"Role gone of t1", "account in t1"}},
		{"a Role is deleted", func(w *world) (any, any) { return w.remove(t, role("t1", "r")) }, []string{"Role r of t1", "account in t1"}},
		{"a ClusterRole of a RoleBinding changes", func(w *world) (any, any) { return w.put(t, clusterRole("c", "list :pods")) }, []string{"ClusterRole c", "account in t2"}},
		{"a ClusterRole of a ClusterRoleBinding changes", func(w *world) (any, any) { return w.put(t, clusterRole("d", "get :pods")) }, ofAccount},
		{"a ClusterRole without bindings changes", func(w *world) (any, any) { return w.put(t, clusterRole("unbound", "list :pods")) }, []string{"ClusterRole unbound"}},
		{"an object of another kind", func(*world) (any, any) { return nil, &metav1.Status{} }, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, i := newWorld(t, start...), &Interests[string]{}
			for who, q := range asked {
				ask(t, i, who, w, q)
			}
			require.ElementsMatch(t, row.want, i.Concerned(row.change(w)))
		})
	}
}

func TestListsAreConcernedByTheirObjects(t *testing.T) {
	asked := map[string]question{
		"Roles":        func(_ testing.TB, l Listers) any { _, err := l.Roles.List(labels.Everything()); return err },
		"Roles of t1":  func(_ testing.TB, l Listers) any { _, err := l.Roles.Roles("t1").List(labels.Everything()); return err },
		"RoleBindings": func(_ testing.TB, l Listers) any { _, err := l.RoleBindings.List(labels.Everything()); return err },
		"RoleBindings of t1": func(_ testing.TB, l Listers) any {
			_, err := l.RoleBindings.RoleBindings("t1").List(labels.Everything())
			return err
		},
		"RoleBinding t1/b": func(_ testing.TB, l Listers) any {
			_, err := l.RoleBindings.RoleBindings("t1").Get("b")
			return err == nil
		},
		"ClusterRoles": func(_ testing.TB, l Listers) any { _, err := l.ClusterRoles.List(labels.Everything()); return err },
		"ClusterRoleBindings": func(_ testing.TB, l Listers) any {
			_, err := l.ClusterRoleBindings.List(labels.Everything())
			return err
		},
		"ClusterRoleBinding b": func(_ testing.TB, l Listers) any { _, err := l.ClusterRoleBindings.Get("b"); return err == nil },
	}
	w, i := newWorld(t), &Interests[string]{}
	for who, q := range asked {
		ask(t, i, who, w, q)
	}
	acct := account("t1", "acct")
	require.ElementsMatch(t, []string{"Roles", "Roles of t1"}, i.Concerned(nil, role("t1", "x")))
	require.ElementsMatch(t, []string{"Roles"}, i.Concerned(nil, role("t2", "x")))
	require.ElementsMatch(t, []string{"RoleBindings", "RoleBindings of t1", "RoleBinding t1/b"}, i.Concerned(nil, binding("t1", "b", ref(kindRole, "x"), acct)))
	require.ElementsMatch(t, []string{"ClusterRoles"}, i.Concerned(clusterRole("x"), nil))
	require.ElementsMatch(t, []string{"ClusterRoleBindings", "ClusterRoleBinding b"}, i.Concerned(clusterBinding("b", ref(kindClusterRole, "x"), acct), nil))
}

func TestLookupsReplaceThoseOfThePreviousReconcile(t *testing.T) {
	me := ServiceAccount("t1", "acct")
	in := func(namespace string) runtime.Object {
		return binding(namespace, "b", ref(kindRole, "r"), account("t1", "acct"))
	}
	w, i := newWorld(t), &Interests[string]{}
	ask(t, i, "plan", w, askEffectiveRules(me, "t1"))

	l, done := i.Track("plan", w.Listers)
	require.Equal(t, []string{"plan"}, i.Concerned(nil, in("t1")), "previous lookups count until the next reconcile ends")
	_, err := l.EffectiveRules(me, "t2")
	require.NoError(t, err)
	require.Equal(t, []string{"plan"}, i.Concerned(nil, in("t2")), "a lookup counts immediately")
	done()
	require.Empty(t, i.Concerned(nil, in("t1")))
	require.Equal(t, []string{"plan"}, i.Concerned(nil, in("t2")))

	_, done = i.Track("plan", w.Listers)
	done()
	require.Empty(t, i.Concerned(nil, in("t2")))
	require.Empty(t, i.interests, "a key without lookups is forgotten")
	require.Empty(t, i.waiting)
}

// Two reconciles must not track the same key at the same time. A caller that does it anyway must not end the program or make
// other keys miss changes.
func TestOverlappingReconcilesOfAKeyDoNotAffectOtherKeys(t *testing.T) {
	me := ServiceAccount("t1", "acct")
	w, i := newWorld(t), &Interests[string]{}
	ask(t, i, "plan", w, askEffectiveRules(me, "t1"))
	_, first := i.Track("plan", w.Listers)
	second, done := i.Track("plan", w.Listers)
	_, err := second.EffectiveRules(me, "t1")
	require.NoError(t, err)
	first() // forgets the lookups of the second one
	done()

	ask(t, i, "other", w, askEffectiveRules(me, "t1"))
	_, done = i.Track("plan", w.Listers)
	require.NotPanics(t, done)
	require.Equal(t, []string{"other"}, i.Concerned(nil, binding("t1", "b", ref(kindRole, "r"), account("t1", "acct"))))
	_, done = i.Track("other", w.Listers)
	done()
	require.Empty(t, i.waiting)
}

func TestMemoryOfManyLookupsIsBounded(t *testing.T) {
	me := ServiceAccount("t1", "acct")
	in := func(n int) string { return fmt.Sprint("ns", n) }
	track := func(n int) (*world, *Interests[string]) {
		w, i := newWorld(t), &Interests[string]{}
		for k := range n {
			w.put(t, binding(in(k), "b", ref(kindRole, "r"), account("t1", "acct")))
		}
		ask(t, i, "all", w, func(t testing.TB, l Listers) any {
			for k := range n {
				_, err := l.EffectiveRules(me, in(k))
				require.NoError(t, err)
			}
			return nil
		})
		ask(t, i, "one", w, askEffectiveRules(ServiceAccount("t9", "acct"), "t9"))
		return w, i
	}
	_, small := track(1_000)
	w, large := track(10_000)
	require.Equal(t, len(small.waiting), len(large.waiting))
	require.LessOrEqual(t, len(large.interests["all"].lookups), maxLookups+10)

	last := in(9_999)
	require.Equal(t, []string{"all"}, large.Concerned(w.put(t, binding(last, "other", ref(kindRole, "r"), account("t1", "acct")))))
	require.Equal(t, []string{"all"}, large.Concerned(w.put(t, binding(last, "group", ref(kindRole, "r"), group("system:serviceaccounts:t1")))))
	require.Equal(t, []string{"all"}, large.Concerned(w.put(t, role(last, "r", "get :pods"))))
	require.Empty(t, large.Concerned(w.put(t, binding(last, "unrelated", ref(kindRole, "r"), account("t5", "acct")))))
	ask(t, large, "all", w, func(testing.TB, Listers) any { return nil })
	require.Len(t, large.interests, 1)
	require.Len(t, large.waiting, len(large.interests["one"].lookups), "the previous lookups of the key are removed")
}

// A change between the lookup and the answer must wake the key, because the answer might not reflect the change.
func TestALookupIsTrackedBeforeItIsAnswered(t *testing.T) {
	me := ServiceAccount("t1", "acct")
	w, i := newWorld(t), &Interests[string]{}
	granted := binding("t1", "b", ref(kindRole, "r"), account("t1", "acct"))
	var concerned []string
	w.RoleBindings = answering{w.RoleBindings, func() { concerned = i.Concerned(nil, granted) }}
	ask(t, i, "plan", w, askEffectiveRules(me, "t1"))
	require.Equal(t, []string{"plan"}, concerned)
}

type answering struct {
	rbacv1listers.RoleBindingLister
	before func()
}

func (a answering) RoleBindings(namespace string) rbacv1listers.RoleBindingNamespaceLister {
	a.before()
	return a.RoleBindingLister.RoleBindings(namespace)
}

// Objects and changes are random. Every key whose answer changes must be woken, and no key must be woken if the objects
// that its answer depends on, determined independently, are unchanged.
func TestChangesWakeExactlyTheConcernedKeys(t *testing.T) {
	random := rand.New(rand.NewSource(3))
	var changes, altered, woken int
	for range 300 {
		w, i := newWorld(t), &Interests[int]{}
		for range 12 {
			w.put(t, randomObject(random))
		}
		questions := randomQuestions(random)
		answers := map[int]any{}
		reconcile := func(n int) {
			l, done := i.Track(n, w.Listers)
			defer done()
			answers[n] = questions[n].ask(t, l)
		}
		for n := range questions {
			reconcile(n)
		}
		for range 30 {
			dependencies := map[int][]string{}
			for n, q := range questions {
				dependencies[n] = q.dependsOn(w)
			}
			obj := randomObject(random)
			change := w.put
			if random.Intn(3) == 0 {
				change = w.remove
			}
			before, after := change(t, obj)
			concerned := i.Concerned(before, after)
			changes++
			for n, q := range questions {
				is := q.ask(t, w.Listers)
				if !slices.Contains(concerned, n) {
					require.Equal(t, answers[n], is, "%s was not woken by %#v -> %#v", q.name, before, after)
					continue
				}
				woken++
				if fmt.Sprint(answers[n]) != fmt.Sprint(is) {
					altered++
				}
				name := objectName(obj)
				require.True(t, slices.Contains(dependencies[n], name) || slices.Contains(q.dependsOn(w), name), "%s was woken by %s", q.name, name)
				reconcile(n)
			}
		}
	}
	t.Logf("%d changes woke %d times and altered %d answers", changes, woken, altered)
	require.Greater(t, altered, 1000)
}

// randomQuestion is a query with a function that independently determines the names of the objects on which the answer
// depends.
type randomQuestion struct {
	name      string
	ask       question
	dependsOn func(w *world) []string
}

var (
	randomNamespaces = []string{"t1", "t2", "t3"}
	randomNames      = []string{"a", "b"}
)

func randomQuestions(random *rand.Rand) []randomQuestion {
	pick := func(from []string) string { return from[random.Intn(len(from))] }
	var out []randomQuestion
	for range 8 {
		s := ServiceAccount(pick(randomNamespaces), pick(randomNames))
		namespace := pick(append(randomNamespaces, ClusterScope))
		out = append(out, randomQuestion{"rules of " + s.User + " in " + namespace, askEffectiveRules(s, namespace), func(w *world) []string {
			return w.bindingsAndRoles(s, func(in string) bool { return in == ClusterScope || in == namespace })
		}})
	}
	s := ServiceAccount(pick(randomNamespaces), pick(randomNames))
	out = append(out, randomQuestion{"scopes of " + s.User, askScopes(s), func(w *world) []string {
		return w.bindingsAndRoles(s, func(in string) bool { return in != ClusterScope })
	}})
	for _, kind := range []string{kindRole, kindClusterRole} {
		namespace, name := pick(randomNamespaces), pick(randomNames)
		object := fmt.Sprint("*v1.Role ", namespace, "/", name)
		if kind == kindClusterRole {
			object = fmt.Sprint("*v1.ClusterRole /", name)
		}
		out = append(out, randomQuestion{"rules of " + object, askRulesOf(kind, namespace, name), func(*world) []string { return []string{object} }})
	}
	return out
}

// bindingsAndRoles returns the names of all bindings that apply to the subject in the selected scopes, and of their
// roles.
func (w *world) bindingsAndRoles(s Subject, in func(namespace string) bool) []string {
	var out []string
	add := func(binding any, namespace string, subjects []rbacv1.Subject, to rbacv1.RoleRef) {
		if !in(namespace) || !applies(subjects, s, namespace) {
			return
		}
		if to.Kind == kindClusterRole {
			namespace = ClusterScope
		}
		out = append(out, objectName(binding), fmt.Sprintf("*v1.%s %s/%s", to.Kind, namespace, to.Name))
	}
	for _, obj := range w.stores[kindRoleBinding].List() {
		b := obj.(*rbacv1.RoleBinding)
		add(b, b.Namespace, b.Subjects, b.RoleRef)
	}
	for _, obj := range w.stores[kindClusterRoleBinding].List() {
		b := obj.(*rbacv1.ClusterRoleBinding)
		add(b, ClusterScope, b.Subjects, b.RoleRef)
	}
	return out
}

func objectName(obj any) string {
	o := obj.(metav1.Object)
	return fmt.Sprintf("%T %s/%s", obj, o.GetNamespace(), o.GetName())
}

func randomObject(random *rand.Rand) runtime.Object {
	pick := func(from []string) string { return from[random.Intn(len(from))] }
	namespace, name := pick(randomNamespaces), pick(randomNames)
	var given []rbacv1.PolicyRule
	for range random.Intn(3) {
		given = append(given, rule(pick([]string{"get :pods", "list :pods", "get :secrets", "* apps:*"})))
	}
	marks := map[string]string{"random": pick([]string{"1", "2"})}
	var subjects []rbacv1.Subject
	for range random.Intn(4) {
		subjects = append(subjects, []rbacv1.Subject{
			account(pick(randomNamespaces), pick(randomNames)), account("", pick(randomNames)), group("system:serviceaccounts"),
			user(ServiceAccount(pick(randomNamespaces), pick(randomNames)).User),
			group("system:serviceaccounts:" + pick(randomNamespaces)), group("system:authenticated"), {Kind: "Robot", Name: "a"},
		}[random.Intn(7)])
	}
	switch random.Intn(4) {
	case 0:
		o := role(namespace, name)
		o.Rules, o.Labels = given, marks
		return o
	case 1:
		o := clusterRole(name)
		o.Rules, o.Labels = given, marks
		return o
	case 2:
		o := binding(namespace, name, ref(pick([]string{kindRole, kindClusterRole}), pick(randomNames)), subjects...)
		o.Labels = marks
		return o
	}
	o := clusterBinding(name, ref(kindClusterRole, pick(randomNames)), subjects...)
	o.Labels = marks
	return o
}

// BenchmarkConcerned measures Concerned for one RBAC event with different numbers of waiting keys.
func BenchmarkConcerned(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		w, i := newWorld(b), &Interests[string]{}
		for k := range n {
			namespace := fmt.Sprint("ns", k)
			ask(b, i, namespace, w, askEffectiveRules(ServiceAccount(namespace, "acct"), namespace))
		}
		grant := binding("ns7", "b", ref(kindRole, "r"), account("ns7", "acct"))
		b.Run(fmt.Sprint(n, "-waiting"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := i.Concerned(nil, grant); len(got) != 1 {
					b.Fatal(got)
				}
			}
		})
	}
}
