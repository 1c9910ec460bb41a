package operatorgroup

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

// given returns the facts for a group that names acct, which exists and is enrolled.
func given(edit ...func(*Facts)) Facts {
	og := &operatorsv1.OperatorGroup{}
	og.Name, og.Namespace, og.Generation = "og", "t1", 1
	og.Spec.ServiceAccountName = "acct"
	og.Spec.TargetNamespaces = []string{"t1"}
	f := Facts{Group: og, Targets: []string{"t1"}, Account: scoped.Account{Namespace: "t1", Name: "acct", UID: "one"}}
	for _, e := range edit {
		e(&f)
	}
	return f
}

func withoutAccount(f *Facts) {
	f.Account = scoped.Account{}
	f.Problem = &scoped.Error{Reason: scoped.AccountMissing, Message: "ServiceAccount acct not found"}
}

// selecting gives the group a selector that selects the targets.
func selecting(targets ...string) func(*Facts) {
	return func(f *Facts) {
		f.Group.Spec.TargetNamespaces, f.Targets = nil, targets
		f.Group.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	}
}

func tooMany(f *Facts) {
	f.Targets, f.TooMany = nil, &scoped.Error{Reason: scoped.TooManyTargets, Message: "1001, but the limit is 1000"}
}

func undecided(f *Facts) {
	f.Targets, f.Undecided = nil, &scoped.UndecidedError{Err: errors.New("the namespace secret")}
}

func uid(id types.UID) func(*Facts) { return func(f *Facts) { f.Account.UID = id } }

// then returns facts in which the group has the given previous status.
func then(status operatorsv1.OperatorGroupStatus, edit ...func(*Facts)) Facts {
	f := given(edit...)
	f.Group.Status = status
	return f
}

func condition(t *testing.T, s operatorsv1.OperatorGroupStatus, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(s.Conditions, kind)
	require.NotNil(t, c, kind)
	return *c
}

func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		name   string
		facts  Facts
		kind   string
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		{"alone", given(), MultipleOperatorGroup, "False", ReasonOnly, ""},
		{"two", given(func(f *Facts) { f.Siblings = 1 }), MultipleOperatorGroup, "True", "MultipleOperatorGroupsFound",
			"Multiple OperatorGroup found in the same namespace"},
		{"existing account", given(), OperatorGroupServiceAccount, "False", ReasonFound, ""},
		{"missing account", given(withoutAccount), OperatorGroupServiceAccount, "True", "ServiceAccountNotFound", "ServiceAccount acct not found"},
		{"usable", given(), AccountUsable, "True", ReasonUsable, "t1/acct"},
		{"a missing account is not usable", given(withoutAccount), AccountUsable, "False", "ServiceAccountNotFound", "not found"},
		{"half enrolled", given(func(f *Facts) { f.NotEnrolled = []string{"system:serviceaccount:remit:remit-olm"} }), AccountUsable, "False",
			"AccountNotEnrolled", "remit/remit-olm cannot request tokens"},
		{"manifest to apply", given(func(f *Facts) { f.NotEnrolled = []string{"system:serviceaccount:remit:remit-olm"} }), AccountUsable, "False",
			"AccountNotEnrolled", "resourceNames:\n  - acct\n  resources:\n  - serviceaccounts/token\n  verbs:\n  - create\n"},
		{"command to run", given(func(f *Facts) { f.NotEnrolled = []string{"system:serviceaccount:remit:remit-olm"} }), AccountUsable, "False",
			"AccountNotEnrolled", "An administrator of the namespace can run kubectl remit enroll acct -n t1, or apply:\n"},
		{"command to run if Remit is in another namespace", given(func(f *Facts) { f.NotEnrolled = []string{"system:serviceaccount:other:remit-olm"} }), AccountUsable, "False",
			"AccountNotEnrolled", "run kubectl remit enroll acct -n t1 --remit-namespace other, or apply:\n"},
		{"the manifest binds both programs", given(func(f *Facts) { f.NotEnrolled = []string{"system:serviceaccount:remit:remit-olm"} }), AccountUsable, "False",
			"AccountNotEnrolled", "subjects:\n- kind: ServiceAccount\n  name: remit-catalog\n  namespace: remit\n- kind: ServiceAccount\n  name: remit-olm\n  namespace: remit\n"},
		{"a person", given(func(f *Facts) { f.NotEnrolled = []string{"oidc:admin"} }), AccountUsable, "False",
			"AccountNotEnrolled", "oidc:admin cannot request tokens for it. An administrator of the namespace can apply:\n"},
		{"default account", given(func(f *Facts) {
			f.Group.Spec.ServiceAccountName = ""
			f.Account = scoped.Account{Namespace: "remit", Name: "default", Default: true}
		}), AccountUsable, "True", ReasonUsable, "default account"},
		{"bad selector", given(func(f *Facts) { f.InvalidSelector = errors.New("bad") }), TargetsKnown, "False", ReasonInvalidSelector, "bad"},
		{"a part is missing", given(withoutAccount, func(f *Facts) {
			f.Targets, f.Group.Annotations = []string{scoped.AllNamespaces}, map[string]string{names.AnnotationUndecodable: "why"}
			f.Group.Spec.TargetNamespaces = nil
		}), TargetsKnown, "False", ReasonNoAccountYet, "not found"},
		{"too many", given(tooMany), TargetsKnown, "False", "TooManyTargets", "the limit is"},
		{"undecided", given(selecting(), undecided), TargetsKnown, "Unknown", "Undecided", "the API server has not decided which of them"},
		{"listed", given(), TargetsKnown, "True", ReasonListed, ""},
		{"selected", given(selecting("t1")), TargetsKnown, "True", ReasonSelected, "spec.selector selects only namespaces that ServiceAccount t1/acct is allowed to get"},
		{"none selected", given(selecting()), TargetsKnown, "True", ReasonSelected, "spec.selector selects only namespaces that ServiceAccount t1/acct is allowed to get"},
		{"selected without an account", given(selecting(), withoutAccount), TargetsKnown, "False", ReasonNoAccountYet, "but there is no usable account: ServiceAccount acct not found"},
		{"targets with permissions", given(), TargetNotAllowed, "False", ReasonRights, ""},
		{"targets without permissions", given(func(f *Facts) { f.WithoutGrants = []string{"kube-system", "t2"} }), TargetNotAllowed, "True", ReasonNoRights,
			"ServiceAccount t1/acct has not been granted any permissions in kube-system, t2"},
		{"too many targets to evaluate", given(tooMany), TargetNotAllowed, "Unknown", "TooManyTargets", ""},
		{"undecided targets", given(selecting(), undecided), TargetNotAllowed, "Unknown", "Undecided", ""},
		{"nothing is published for undecided targets", given(selecting(), undecided), ProvidedAPIsPublished, "Unknown", "Undecided", ""},
		{"targets of one of two OperatorGroups", given(func(f *Facts) { f.Siblings = 1 }), TargetNotAllowed, "Unknown", "MultipleOperatorGroupsFound", ""},
		{"targets without an account", given(withoutAccount), TargetNotAllowed, "Unknown", ReasonNoAccountYet, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := condition(t, Desired(tc.facts), tc.kind)
			require.Equal(t, tc.status, got.Status)
			require.Equal(t, tc.reason, got.Reason)
			require.Contains(t, got.Message, tc.says)
			require.EqualValues(t, 1, got.ObservedGeneration)
		})
	}
}

func TestSetsEveryConditionOnTheFirstReconcile(t *testing.T) {
	require.Len(t, Desired(given()).Conditions, 8)
	require.Equal(t, &corev1.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount", Namespace: "t1", Name: "acct", UID: "one"},
		Desired(given()).ServiceAccountRef)
}

func TestReportsARecreatedAccountUntilTheSpecChanges(t *testing.T) {
	first := Desired(given())
	require.Equal(t, metav1.ConditionFalse, condition(t, first, AccountChanged).Status)

	deleted := Desired(then(first, withoutAccount))
	require.Nil(t, deleted.ServiceAccountRef)
	require.Equal(t, metav1.ConditionUnknown, condition(t, deleted, AccountChanged).Status)
	require.Equal(t, condition(t, deleted, AccountChanged), condition(t, Desired(then(deleted, withoutAccount)), AccountChanged), "the condition is stable while the account is missing")

	back := Desired(then(deleted, uid("two")))
	changed := condition(t, back, AccountChanged)
	require.Equal(t, metav1.ConditionTrue, changed.Status)
	require.Contains(t, changed.Message, "UID two")
	require.Equal(t, changed, condition(t, Desired(then(back, uid("two"))), AccountChanged), "kept")

	accepted := Desired(then(back, uid("two"), func(f *Facts) { f.Group.Generation = 2 }))
	require.Equal(t, metav1.ConditionFalse, condition(t, accepted, AccountChanged).Status)

	missed := Desired(then(first, uid("two")))
	require.Equal(t, metav1.ConditionTrue, condition(t, missed, AccountChanged).Status, "the account was recreated between two reconciles")
}

type enrolled struct{ missing []string }

func (e enrolled) Missing(rbac.Listers, scoped.Account) ([]string, error) { return e.missing, nil }

func TestWritesNothingIfNothingChanged(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	og := given().Group
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct", UID: "one"}}
	c := indexed(t, scheme).WithStatusSubresource(og).WithObjects(og, sa).Build()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	roles, bindings := store(), store()
	r, err := New(Options{Client: c, Live: c, Accounts: asAccount{}, Proofs: proofs.Keys(), RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(store()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(store()),
	}, Enrollment: enrolled{}, Recorder: &events.FakeRecorder{}, Clock: clock})
	require.NoError(t, err)

	read := func() *operatorsv1.OperatorGroup {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(og)})
		require.NoError(t, err)
		got := &operatorsv1.OperatorGroup{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(og), got))
		return got
	}
	first := read()
	require.Equal(t, []string{"t1"}, first.Status.Namespaces)
	require.NotNil(t, first.Status.LastUpdated)
	clock.SetTime(clock.Now().Add(time.Hour))
	require.Equal(t, first.ResourceVersion, read().ResourceVersion)
	require.Equal(t, metav1.ConditionTrue, condition(t, first.Status, AccountUsable).Status)

	// An account with more rules than Remit evaluates is not usable.
	names := slices.Repeat([]string{"a"}, rbac.MaxValues)
	require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "large"}, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: names,
	}}}))
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "large"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "large"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}
	require.NoError(t, bindings.Add(binding))
	usable := condition(t, read().Status, AccountUsable)
	require.Equal(t, string(scoped.AccountHoldsTooMuch), usable.Reason)
	require.Contains(t, usable.Message, "the roles bound to ServiceAccount t1/acct have more than the supported maximum of 200000 verbs")
	require.NoError(t, bindings.Delete(binding))
	require.Equal(t, metav1.ConditionTrue, condition(t, read().Status, AccountUsable).Status)
}

// The administrators of a target namespace control its bindings. Too many bindings there only prevent installs for that
// namespace.
func TestTooManyRulesInATargetAffectOnlyThatTarget(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	og := given().Group
	og.Spec.TargetNamespaces = []string{"t1", "fine", "victim"}
	c := indexed(t, scheme).WithObjects(og, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}}).Build()
	roles, bindings := store(), store()
	for namespace, names := range map[string]int{"fine": 1, "victim": rbac.MaxValues} {
		require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}, Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: slices.Repeat([]string{"a"}, names),
		}}}))
		require.NoError(t, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}))
	}
	// All ServiceAccounts also have this permission through their groups.
	require.NoError(t, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:authenticated"}}}))
	r, err := New(Options{Client: c, Live: c, Accounts: asAccount{}, Proofs: proofs.Keys(), RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(store()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(store()),
	}, Enrollment: enrolled{}, Recorder: &events.FakeRecorder{}})
	require.NoError(t, err)
	f, err := r.gather(t.Context(), og)
	require.NoError(t, err)
	require.Nil(t, f.TooMuch)
	require.Equal(t, []string{"victim"}, f.WithoutGrants)
}

func store() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

// indexed returns a builder of a client with the indexes of a program's cache.
func indexed(t *testing.T, scheme *runtime.Scheme) *fake.ClientBuilder {
	t.Helper()
	builder := fake.NewClientBuilder().WithScheme(scheme)
	require.NoError(t, indexes(t.Context(), recorded.Indexes{Builder: builder}))
	return builder
}

// RBAC is not evaluated for a second OperatorGroup, or for an OperatorGroup with too many targets; otherwise, these
// listers would panic.
func TestSkipsRBACForASecondGroupAndForTooManyTargets(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	first, second, many := given().Group, given().Group, given().Group
	first.Spec.TargetNamespaces = []string{"t2"}
	second.Name = "second"
	many.Namespace = "t3"
	for i := range scoped.MaxTargets + 1 {
		many.Spec.TargetNamespaces = append(many.Spec.TargetNamespaces, fmt.Sprint("x", i))
	}
	c := indexed(t, scheme).WithObjects(first, second, many,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t3", Name: "acct"}}).Build()
	r, err := New(Options{Client: c, Live: c, Accounts: asAccount{}, Proofs: proofs.Keys(), RBAC: rbac.Listers{Roles: rbacv1listers.NewRoleLister(nil)}, Enrollment: enrolled{}, Recorder: &events.FakeRecorder{}})
	require.NoError(t, err)
	for _, og := range []*operatorsv1.OperatorGroup{first, many} {
		f, err := r.gather(t.Context(), og)
		require.NoError(t, err)
		require.Empty(t, f.WithoutGrants)
	}
	f, err := r.gather(t.Context(), many)
	require.NoError(t, err)
	require.NotNil(t, f.TooMany)
	require.Empty(t, Desired(f).Namespaces)
}
