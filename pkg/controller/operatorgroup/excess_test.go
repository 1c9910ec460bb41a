package operatorgroup

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// leftovers is a cluster with an operator's role and binding, whose ClusterServiceVersion was deleted without them.
type leftovers struct {
	*cluster
	clock   *clocktesting.FakePassiveClock
	role    *rbacv1.Role
	binding *rbacv1.RoleBinding
}

func newLeftovers(t *testing.T, pkg string) *leftovers {
	t.Helper()
	c := &leftovers{cluster: newCluster(t), clock: clocktesting.NewFakePassiveClock(time.Now())}
	c.r.Clock = c.clock
	c.r.Remover = func(context.Context, rbac.Listers) (client.Client, error) { return c.Client("remover"), nil }
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: "t1"}, CSV: "gone.v1", Proofs: proofs.Keys()}
	c.role = &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "gone"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}}
	c.binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "gone"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "gone"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "operator"}}}
	proofs.Mark(c.role, owner)
	proofs.Mark(c.binding, owner)
	c.Put(c.role, c.binding)
	c.settle()
	require.Nil(t, meta.FindStatusCondition(c.group().Status.Conditions, names.ConditionExceedsAccount))
	return c
}

func (c *leftovers) group() *operatorsv1.OperatorGroup {
	c.Get(c.og)
	return c.og
}

// weaken leaves the account permission to delete what the operator has.
func (c *leftovers) weaken() {
	c.grant(rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"delete"}})
}

// pass lets time pass, and returns the writes and Events that follow.
func (c *leftovers) pass(d time.Duration) []string {
	c.t.Helper()
	c.settle()
	c.clock.SetTime(c.clock.Now().Add(d))
	return c.settle()
}

func (c *leftovers) isBound() bool { return c.Has(c.binding) }

func removals(writes []string) []string {
	return slices.DeleteFunc(writes, func(w string) bool {
		return !strings.Contains(w, "delete RoleBinding") || strings.Contains(w, "(refused)")
	})
}

func TestPermissionsWithoutACSVAreReportedAndRemoved(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.weaken()
	require.Empty(t, removals(c.pass(time.Minute)))
	got := c.condition(names.ConditionExceedsAccount)
	require.Equal(t, ReasonGracePeriod, got.Reason)
	require.Equal(t, metav1.ConditionTrue, got.Status)
	for _, part := range []string{
		`ServiceAccount t1/acct is missing permissions: in namespace t1 {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}; operators have them through RoleBinding t1/gone, which Remit has created: at `,
		"To keep them, grant the permissions to the ServiceAccount, or set the annotation remit.dev/keep-excess-permissions=true of OperatorGroup t1/og. To remove them now, run: kubectl delete rolebinding gone -n t1",
	} {
		require.Contains(t, got.Message, part)
	}
	require.Empty(t, removals(c.pass(excess.DefaultGrace-time.Minute-time.Second)))
	require.Equal(t, []string{"acct: delete RoleBinding t1/gone"}, removals(c.pass(time.Second)))
	require.False(t, c.isBound())
	got = c.condition(names.ConditionExceedsAccount)
	require.Equal(t, ReasonRemoved, got.Reason)
	require.Equal(t, metav1.ConditionFalse, got.Status)
}

// What was removed cannot be determined afterwards.
// The API server decides which namespaces an account with a ClusterRole that is not kept may get. Until it does, the targets remain as they
// were, nothing is published, and what exceeds the account is still reported and removed.
func TestUndecidedTargetsAreShownAndKeepNoPermissions(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.weaken()
	c.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bloated"}, Rules: rbac.KeptRules(slices.Repeat([]rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: slices.Repeat([]string{"pods"}, rbac.MaxValues), Verbs: []string{"get"}}}, 1))},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "bloated"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "bloated"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}})
	c.Get(c.og)
	c.og.Spec.TargetNamespaces, c.og.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	c.Put(c.og, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t2", Labels: c.og.Spec.Selector.MatchLabels}})
	c.r.ask = func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		if atom.Resources[0] == "namespaces" {
			return false, errors.New("no answer")
		}
		return false, nil
	}
	pass := func(d time.Duration) (writes []string) {
		c.clock.SetTime(c.clock.Now().Add(d))
		for range 5 {
			_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c.og)})
			require.ErrorAs(t, err, new(*scoped.UndecidedError))
			writes = append(writes, c.Writes()...)
		}
		return slices.DeleteFunc(writes, func(w string) bool {
			return w == "remit: patch status of OperatorGroup t1/og" || strings.HasPrefix(w, "event: ")
		})
	}
	require.Empty(t, pass(0))
	require.Empty(t, pass(time.Minute))
	known := c.condition(TargetsKnown)
	require.Equal(t, metav1.ConditionUnknown, known.Status)
	require.Equal(t, ReasonUndecided, known.Reason)
	require.Equal(t, (&scoped.UndecidedError{}).Error(), known.Message, "the reason may name what readers may not see")
	require.Equal(t, []string{"t2"}, c.group().Status.Namespaces)
	require.Equal(t, ReasonGracePeriod, c.condition(names.ConditionExceedsAccount).Reason)
	require.Equal(t, []string{"acct: delete RoleBinding t1/gone"}, removals(pass(excess.DefaultGrace)))
	require.Equal(t, ReasonRemoved, c.condition(names.ConditionExceedsAccount).Reason)
}

func TestARemovalIsReportedAfterAConflict(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.weaken()
	c.settle()
	changed := false
	c.Before("remit: patch status of OperatorGroup t1/og", func() {
		changed = true
		c.annotate("test", "changed")
	})
	c.pass(excess.DefaultGrace)
	require.False(t, c.isBound())
	require.True(t, changed)
	require.Equal(t, ReasonRemoved, c.condition(names.ConditionExceedsAccount).Reason)
	require.Empty(t, c.r.unsaved.Get(client.ObjectKeyFromObject(c.og)))
}

func TestWhichPermissionsWithoutACSVStay(t *testing.T) {
	for name, given := range map[string]func(*leftovers){
		"what the account has":       func(c *leftovers) {},
		"what the API server allows": func(c *leftovers) { c.weaken(); c.Allow("*") },
		"what a user has created":    func(c *leftovers) { c.weaken(); c.unprove() },
		"what the annotation keeps":  func(c *leftovers) { c.weaken(); c.annotate(names.AnnotationKeepExcess, "true") },
		"what the annotation keeps according to the API server": func(c *leftovers) {
			c.weaken()
			c.settle()
			c.Lag(c.og.DeepCopy())
			c.annotate(names.AnnotationKeepExcess, "true")
		},
		"what OLM manages":          func(c *leftovers) { c.weaken(); c.annotate(names.AnnotationManagedBy, names.ManagedByOLM) },
		"what a CSV appears to own": func(c *leftovers) { c.weaken(); c.own(func(client.Object) {}) },
		"what the default account has, without an OperatorGroup": func(c *leftovers) {
			c.r.Default.Account = types.NamespacedName{Namespace: "t1", Name: "acct"}
			c.Delete(c.og)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLeftovers(t, "gone")
			given(c)
			require.Empty(t, removals(c.pass(excess.DefaultGrace)))
			require.Empty(t, removals(c.pass(excess.DefaultGrace-time.Second)))
			require.True(t, c.isBound())
		})
	}
}

// own creates the ClusterServiceVersion that the labels name.
func (c *leftovers) own(edit func(client.Object)) {
	csv := c.csv.DeepCopy()
	csv.Name, csv.UID, csv.ResourceVersion = "gone.v1", "", ""
	edit(csv)
	c.Put(csv)
}

func (c *leftovers) unprove() {
	recorded.Edit(c.Server, c.binding, func(b *rbacv1.RoleBinding) { b.Annotations = nil })
}

func (c *leftovers) annotate(key, value string) {
	recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Annotations = map[string]string{key: value} })
}

// Users choose labels and OperatorGroups. None of these keeps what exceeds the account.
func TestWhatDoesNotKeepPermissions(t *testing.T) {
	for name, row := range map[string]struct {
		given func(*leftovers)
		after time.Duration
	}{
		"a second OperatorGroup":   {given: func(c *leftovers) { c.second("acct") }},
		"a CSV with the same name": {given: func(c *leftovers) { c.own(func(client.Object) {}) }, after: excess.DefaultGrace},
		"a CSV that is a copy": {given: func(c *leftovers) {
			c.own(func(csv client.Object) { csv.SetLabels(map[string]string{names.LabelCopiedFrom: "x"}) })
		}},
		"a CSV whose deletion is delayed": {given: func(c *leftovers) {
			csv := c.csv.DeepCopy()
			c.own(func(o client.Object) { o.SetFinalizers([]string{"example.com/delay"}) })
			csv.Name = "gone.v1"
			c.Delete(csv)
		}},
		"no OperatorGroup": {given: func(c *leftovers) { c.Delete(c.og) }},
		"an OperatorGroup whose deletion is delayed": {given: func(c *leftovers) {
			recorded.Edit(c.Server, c.og, func(og *operatorsv1.OperatorGroup) { og.Finalizers = []string{"example.com/delay"} })
			c.Delete(c.og)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLeftovers(t, "gone")
			c.grant()
			c.Refuse("acct: delete RoleBinding t1/gone", forbidden())
			row.given(c)
			require.Empty(t, removals(c.pass(excess.DefaultGrace+row.after-time.Second)))
			if row.after > 0 {
				require.Empty(t, removals(c.pass(0)))
			}
			require.Equal(t, []string{"remover: delete RoleBinding t1/gone"}, removals(c.pass(time.Second)))
			require.False(t, c.isBound())
		})
	}
}

func (c *leftovers) second(account string) {
	og := given().Group
	og.Name, og.UID = "second", "second"
	og.Spec.ServiceAccountName = account
	c.Put(og)
}

// The component label does not contain a long package name. The proof and the namespace of the binding decide, whomever it binds.
func TestPermissionsOfALongPackageNameAreRemoved(t *testing.T) {
	for _, subject := range []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "operator"}, {Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "someone"},
	} {
		c := newLeftovers(t, strings.Repeat("long-", 30)+"name")
		recorded.Edit(c.Server, c.binding, func(b *rbacv1.RoleBinding) { b.Subjects = []rbacv1.Subject{subject} })
		c.weaken()
		require.Equal(t, []string{"acct: delete RoleBinding t1/gone"}, removals(c.pass(excess.DefaultGrace)), subject.Kind)
	}
}

// Users choose labels and subjects of the bindings that Remit has created in their namespaces.
func TestBindingsOfOthersAreNoExcess(t *testing.T) {
	c := newLeftovers(t, "gone")
	long := strings.Repeat("long-", 30) + "name"
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	c.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "gone"}, Rules: rules})
	ours := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "operator"}}
	user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "someone"}}
	owner := func(pkg, namespace string) ownerutil.Owner {
		return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: namespace}, CSV: "gone.v1", Proofs: proofs.Keys()}
	}
	encoded, err := json.Marshal(rules)
	require.NoError(t, err)
	granted := func(o ownerutil.Owner) string { return "gone.v1-" + o.GrantHash("operator", "t2", encoded) }
	for name, row := range map[string]struct {
		in, name string
		by       ownerutil.Owner
		subjects []rbacv1.Subject
		want     bool
	}{
		"theirs, in their namespace, with our ServiceAccount": {in: "t2", name: granted(owner("a", "t2")), by: owner("a", "t2"), subjects: ours},
		"theirs, with a long package name":                    {in: "t2", name: granted(owner(long, "t2")), by: owner(long, "t2"), subjects: ours},
		"ours, in their namespace":                            {in: "t2", name: granted(owner(long, "t1")), by: owner(long, "t1"), subjects: ours, want: true},
		"ours, in their namespace, with a user":               {in: "t2", name: granted(owner(long, "t1")), by: owner(long, "t1"), subjects: user},
		"ours, for the whole cluster":                         {name: "b", by: owner(long, "t1"), subjects: ours, want: true},
		"a user's, for the whole cluster":                     {name: "b", by: owner(long, "t2"), subjects: user},
		"ours, with a user":                                   {in: "t1", name: "b", by: owner(long, "t1"), subjects: user, want: true},
	} {
		meta := metav1.ObjectMeta{Namespace: row.in, Name: row.name}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gone"}
		var obj client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: row.subjects, RoleRef: ref}
		if row.in == "" {
			obj = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: row.subjects, RoleRef: ref}
		}
		proofs.Mark(obj, row.by)
		obj.GetLabels()[names.LabelOwnerNamespace] = "t1"
		s := search{Reconciler: c.r, bound: scoped.Bound{Namespace: "t1"}}
		require.Equal(t, row.want, s.isCreated(obj), name)
		obj.SetAnnotations(nil)
		require.False(t, s.isCreated(obj), name)
	}
}

func TestPermissionsThatNobodyMayRemove(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.r.Remover = nil
	c.Refuse("acct: delete RoleBinding t1/gone", forbidden())
	c.weaken()
	c.pass(excess.DefaultGrace)
	got := c.condition(names.ConditionExceedsAccount)
	require.Equal(t, ReasonNotRemoved, got.Reason)
	require.Contains(t, got.Message, "to remove them, run: kubectl delete rolebinding gone -n t1")
	require.True(t, c.isBound())
}

// Without an OperatorGroup, Events about the bindings are the report.
func TestANamespaceWithoutAnOperatorGroup(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.Delete(c.og)
	c.pass(time.Minute)
	require.Equal(t, []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "t1"}}}, c.r.ungrouped(t.Context(), c.binding))
	require.Equal(t, []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "t1"}}}, c.r.answering(t.Context(), c.csv))
	c.clock.SetTime(c.clock.Now().Add(time.Hour))
	_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "t1"}})
	require.NoError(t, err)
	require.False(t, c.isBound())
}

// Users of a target namespace can read its Events, but may know nothing about other targets or about the operators' namespace.
func TestEventsDescribeOnlyObjectsOfTheirNamespace(t *testing.T) {
	c := newLeftovers(t, "gone")
	by := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "gone", Namespace: "t1"}, CSV: "gone.v1", Proofs: proofs.Keys()}
	for _, target := range []string{"b", "c"} {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "target-" + target, Name: "role-" + target}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"secret-" + target}, Verbs: []string{"get"}}}}
		binding := c.binding.DeepCopy()
		binding.ObjectMeta = metav1.ObjectMeta{Namespace: role.Namespace, Name: "binding-" + target}
		binding.RoleRef.Name = role.Name
		proofs.Mark(role, by)
		proofs.Mark(binding, by)
		c.Put(role, binding)
	}
	c.Delete(c.og)
	c.r.Remover = nil
	events := map[string][]string{}
	for _, d := range []time.Duration{0, time.Minute, excess.DefaultGrace} {
		c.clock.SetTime(c.clock.Now().Add(d))
		for range 2 {
			_, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "t1"}})
			require.NoError(t, err)
			for _, w := range c.Writes() {
				if _, about, ok := strings.Cut(w, " on RoleBinding "); ok {
					namespace, _, _ := strings.Cut(about, "/")
					events[namespace] = append(events[namespace], w)
				}
			}
		}
	}
	for _, target := range []string{"b", "c"} {
		other := string("bc"['c'-target[0]])
		got := events["target-"+target]
		require.Len(t, got, 2, "the grace period, and what remains")
		for _, text := range got {
			for _, part := range []string{"secret-" + target, "binding-" + target, "kubectl delete rolebinding binding-" + target + " -n target-" + target} {
				require.Contains(t, text, part)
			}
			for _, part := range []string{"target-" + other, "secret-" + other, "binding-" + other, "t1", "RoleBinding t1/gone"} {
				require.NotContains(t, text, part)
			}
		}
		require.Contains(t, got[1], "they cannot be removed; to remove them, run:")
	}
	own := events["t1"]
	require.Len(t, own, 2)
	require.Contains(t, own[0], "namespace t1, which has no account, is missing permissions: in namespace t1 ")
	require.Contains(t, own[1], "they cannot be removed (")
	require.NotContains(t, own[1], "target-")
}

// A webhook configuration is described in the namespace "default", in which Events about cluster-scoped objects are.
func TestEventsAboutWebhooksNameNoNamespaces(t *testing.T) {
	s := search{bound: scoped.Bound{Namespace: "t1"}}
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hook"}}
	found := []excess.Object{{Object: hook, Intercepts: []string{"webhook a in namespace t2"}}}
	got := s.report(ReasonKept, found, fate{is: "they stay"})
	require.Contains(t, got.Message, "webhook a in namespace t2")
	require.Contains(t, got.left[""], "those to read and write what the configuration intercepts")
	require.NotContains(t, got.left[""], "t2")
	require.Equal(t, []string{"webhook a in namespace t2"}, found[0].Intercepts)
}

func forbidden() error { return errorOf("rolebindings") }

func errorOf(resource string) error {
	return apierrors.NewForbidden(rbacv1.Resource(resource), "gone", errors.New("no permission"))
}

// The bindings of a namespace that is deleted go with it, and the API server accepts nothing new there.
func TestATerminatingNamespaceIsLeftAlone(t *testing.T) {
	c := newLeftovers(t, "gone")
	c.weaken()
	c.pass(time.Minute)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
	recorded.Edit(c.Server, namespace, func(ns *corev1.Namespace) { ns.Finalizers = []string{"example.com/contents"} })
	c.Delete(namespace)
	c.Delete(c.og)
	c.clock.SetTime(c.clock.Now().Add(excess.DefaultGrace))
	got, err := c.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "t1"}})
	require.NoError(t, err)
	require.Zero(t, got.RequeueAfter, "nothing is retried")
	require.Empty(t, c.Writes())
	require.True(t, c.isBound())
}
