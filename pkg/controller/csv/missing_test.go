package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The API server does not check what a webhook intercepts, so a webhook is written only if Remit's check is complete.
func TestNoWebhookIsWrittenIfTheCheckIsIncomplete(t *testing.T) {
	t.Parallel()
	denied := func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) { return false, nil }
	down := func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) {
		return false, errors.New("the authorizer is down")
	}
	for name, tc := range map[string]struct {
		padding int
		ask     preflight.Reviewer
		says    string
		missing bool
	}{
		"permissions that the account does not have": {0, denied, "is missing permissions: in namespace t1", true},
		"rules beyond the limits":                    {100, denied, "refused: ", true},
		"an authorizer that does not respond":        {0, down, ": the authorizer is down", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "probe.v1"}}
			groups, resources := []string{""}, []string{"secrets"}
			for i := range tc.padding {
				groups, resources = append(groups, fmt.Sprintf("g%d", i)), append(resources, fmt.Sprintf("r%d", i))
			}
			csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
				Type: operatorsv1alpha1.ValidatingAdmissionWebhook, GenerateName: "a.b.c", DeploymentName: "d",
				Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"*"},
					Rule: admissionregistrationv1.Rule{APIGroups: groups, APIVersions: []string{"*"}, Resources: resources,
						Scope: ptr.To(admissionregistrationv1.NamespacedScope)}}},
			}}
			plan, err := hooks.New(hooks.Input{CSV: csv, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "probe", Namespace: "t1"}},
				Group: webhook.Group{Bounded: true, Targets: []string{"t1"}}})
			require.NoError(t, err)
			none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			r := &Reconciler{confirmer: &preflight.Confirmer{Ask: tc.ask}, Options: Options{RBAC: rbac.Listers{
				Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
				ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none)}}}
			s := &scope{csv: csv, hooks: plan, account: scoped.Account{Namespace: "t1", Name: "acct"}}
			err = r.missingNow(t.Context(), s, forHooks, plan.Demands())
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, tc.missing, isMissingPermissions(err))
		})
	}
}

// The administrator of a target namespace can bind any number of roles there. Too many roles affect only the namespace
// in which they are bound.
func TestATargetOverTheLimitGrantsNothing(t *testing.T) {
	t.Parallel()
	index := func(objects ...any) cache.Indexer {
		out := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		for _, obj := range objects {
			require.NoError(t, out.Add(obj))
		}
		return out
	}
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	role := func(namespace string, names int) *rbacv1.Role {
		much := pods
		much.ResourceNames = slices.Repeat([]string{"a"}, names)
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r"}, Rules: []rbacv1.PolicyRule{pods, much}}
	}
	binding := func(namespace string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}
	}
	given := func(roles ...any) (*Reconciler, *scope) {
		l := rbac.Listers{
			Roles: rbacv1listers.NewRoleLister(index(roles...)), RoleBindings: rbacv1listers.NewRoleBindingLister(index(binding("t1"), binding("fine"), binding("victim"))),
			ClusterRoles: rbacv1listers.NewClusterRoleLister(index()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index()),
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "probe.v1"}}
		return &Reconciler{Options: Options{RBAC: l}}, &scope{csv: csv, targets: []string{"fine", "victim"}, account: scoped.Account{Namespace: "t1", Name: "acct"},
			checker: install.NewCSVRuleChecker(l.Roles, l.RoleBindings, l.ClusterRoles, l.ClusterRoleBindings, csv)}
	}
	r, s := given(role("t1", 0), role("fine", 0), role("victim", rbac.MaxValues))
	require.NoError(t, r.trackPermissions(s))
	require.True(t, r.holds(s, pods, "t1") && r.holds(s, pods, "fine"))
	require.False(t, r.holds(s, pods, "victim"))
	covered, err := s.cover(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}},
		[]demand{{kind: ruleNamespaced, scopes: s.ruleScopes(), rules: []rbacv1.PolicyRule{pods}}})
	require.NoError(t, err)
	require.Equal(t, rbac.Lines("victim", []rbacv1.PolicyRule{pods}, maxLines), covered.missing)

	r, s = given(role("t1", rbac.MaxValues))
	require.Equal(t, scoped.AccountHoldsTooMuch, scoped.ReasonOf(r.trackPermissions(s)), "too many rules in the account's own namespace")
}

// A rule that fits into a ClusterServiceVersion can be missing as thousands of lines in each of a thousand targets.
func TestTheLinesOfMissingPermissionsAreLimited(t *testing.T) {
	t.Parallel()
	rule := rbacv1.PolicyRule{Verbs: []string{"get"}}
	for i := range 200 {
		rule.APIGroups = append(rule.APIGroups, fmt.Sprint(strings.Repeat("g", 100), i))
		rule.Resources = append(rule.Resources, fmt.Sprint(strings.Repeat("r", 50), i))
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "probe.v1"}}
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	l := rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}
	s := &scope{csv: csv, checker: install.NewCSVRuleChecker(l.Roles, l.RoleBindings, l.ClusterRoles, l.ClusterRoleBindings, csv)}
	for i := range 20 {
		s.targets = append(s.targets, fmt.Sprint("x", i))
	}
	covered, err := s.cover(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}},
		[]demand{{kind: ruleNamespaced, scopes: s.ruleScopes(), rules: []rbacv1.PolicyRule{rule}}})
	require.NoError(t, err)
	require.Len(t, covered.missing, maxMissing)
	require.Less(t, len(strings.Join(covered.missing, "")), 4<<20)
	require.Len(t, covered.dependents, 1)
	require.Equal(t, operatorsv1alpha1.DependentStatusReasonNotSatisfied, covered.dependents[0].Status)
}

func TestReportsUndecidedChecksOfBothActions(t *testing.T) {
	t.Parallel()
	account := scoped.Account{Namespace: "t1", Name: "acct"}
	err := joinMissing(&MissingPermissionsError{Account: account, Refused: []string{"a"}}, &MissingPermissionsError{Account: account, Missing: []string{"m"}, Refused: []string{"b"}})
	require.EqualError(t, err, "refused: a; b")
	require.Equal(t, []string{"m", "a", "b"}, (&scope{facts: Facts{Refused: err}}).exceeding())
}

// OLM reports no requirement about its own permissions.
func TestTheDefaultAccountIsNotARequirement(t *testing.T) {
	requirements := func(isDefault bool, refused error) []operatorsv1alpha1.RequirementStatus {
		s := &scope{acting: warrant.Of(fake.NewClientBuilder().Build()), account: scoped.Account{Namespace: "remit", Name: "acct", Default: isDefault}}
		s.facts.Refused = refused
		s.requireAccount()
		return s.requirements
	}
	require.Empty(t, requirements(true, nil))
	require.Len(t, requirements(true, errors.New("a default account that is not cluster-admin")), 1)
	require.Len(t, requirements(false, nil), 1)
}
