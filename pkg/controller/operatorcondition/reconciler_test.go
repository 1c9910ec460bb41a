package operatorcondition

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/recorded"
)

const (
	creates = "remit: create OperatorCondition t1/demo.v1.0.0"
	reports = "remit: patch status of OperatorCondition t1/demo.v1.0.0"
)

// world is a cluster in which ServiceAccount acct installs the demo, whose only Deployment runs as ServiceAccount demo.
type world struct {
	*recorded.Server
	t *testing.T
	r *Reconciler
}

type change func(*world)

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "csv"}}
	d := operatorsv1alpha1.StrategyDeploymentSpec{Name: "demo"}
	d.Spec.Template.Spec.ServiceAccountName = "demo"
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{d}
	w := &world{t: t, Server: recorded.New(t, nil, csv,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}},
		&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og"}, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct"}},
	)}
	for _, c := range append([]change{may("acct", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})}, changes...) {
		c(w)
	}
	r, err := New(Options{Client: w.Cached("remit"), RBAC: w.RBAC()})
	require.NoError(t, err)
	w.r = r
	return w
}

// may makes the rules the only permissions of a ServiceAccount.
func may(serviceAccount string, rules ...rbacv1.PolicyRule) change {
	return func(w *world) {
		w.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: serviceAccount}, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: serviceAccount}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: serviceAccount},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: serviceAccount}}})
	}
}

func leftToOLM(w *world) {
	w.Put(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "og", Annotations: map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}}})
}

func with(edit func(*operatorsv2.OperatorCondition)) change {
	return func(w *world) {
		c := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", Generation: 3}}
		edit(c)
		w.Put(c)
	}
}

func ofCSV(edit func(*operatorsv1alpha1.ClusterServiceVersion)) change {
	return func(w *world) {
		recorded.Edit(w.Server, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0"}}, edit)
	}
}

func refusing(request string, err error) change { return func(w *world) { w.Refuse(request, err) } }

// reconcile reconciles twice, because the second reconcile must not repeat the writes of the first.
func (w *world) reconcile() ([]string, error) {
	w.t.Helper()
	key := client.ObjectKey{Namespace: "t1", Name: "demo.v1.0.0"}
	_, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	wrote := w.Writes()
	if err == nil {
		_, err = w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	}
	return append(wrote, w.Writes()...), err
}

func (w *world) condition() *operatorsv2.OperatorCondition {
	w.t.Helper()
	c := &operatorsv2.OperatorCondition{}
	require.NoError(w.t, w.Cached("remit").Get(w.t.Context(), client.ObjectKey{Namespace: "t1", Name: "demo.v1.0.0"}, c))
	return c
}

func terminating() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "operatorconditions"}, "demo.v1.0.0", errors.New("is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestWritesOnlyTheOperatorConditionAndItsStatus(t *testing.T) {
	t.Parallel()
	conditions := func(c *operatorsv2.OperatorCondition) {
		c.Spec.Conditions = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Reason: "Busy"}}
	}
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "operatorconditions"}, "demo.v1.0.0", errors.New("exceeded quota"))
	for _, row := range []struct {
		name  string
		given []change
		want  []string
		err   string
	}{
		{"a ClusterServiceVersion gets an OperatorCondition", nil, []string{creates}, ""},
		{"the conditions of the spec are copied to the status", []change{with(conditions)}, []string{reports}, ""},
		{"an OperatorCondition that a tenant created is not changed", []change{with(func(c *operatorsv2.OperatorCondition) {
			c.Spec.ServiceAccounts, c.Spec.Deployments = []string{"boss"}, []string{"other"}
		})}, nil, ""},
		{"a status that another client wrote is corrected", []change{with(func(c *operatorsv2.OperatorCondition) {
			c.Status.Conditions = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue, ObservedGeneration: 99}}
		})}, []string{reports}, ""},
		{"a copy has no OperatorCondition", []change{ofCSV(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "x"}
		})}, nil, ""},
		{"the OperatorCondition of a copy is not maintained", []change{with(conditions), ofCSV(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "x"}
		})}, nil, ""},
		{"an OperatorCondition without a ClusterServiceVersion is not maintained", []change{with(conditions), func(w *world) {
			w.Delete(&operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0"}})
		}}, nil, ""},
		{"a namespace of OLM gets none", []change{leftToOLM}, nil, ""},
		{"an OperatorCondition in a namespace of OLM is not maintained", []change{with(conditions), leftToOLM}, nil, ""},
		{"the namespace is being deleted", []change{refusing(creates, terminating())}, []string{creates + " (refused)", creates + " (refused)"}, ""},
		{"a quota is retried", []change{refusing(creates, denied)}, []string{creates + " (refused)"}, "exceeded quota"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := newWorld(t, row.given...).reconcile()
			require.Equal(t, row.want, got)
			if row.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.err)
		})
	}
}

func TestReportsThatTheAccountMayNotGrantAccess(t *testing.T) {
	t.Parallel()
	roles := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "create", "patch"}}
	own := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, Verbs: []string{"get", "update", "patch"}}
	plain := with(func(*operatorsv2.OperatorCondition) {})
	for _, row := range []struct {
		name  string
		given []change
		want  string
	}{
		{"the account may grant the permissions", nil, ""},
		{"the account has exactly what it needs", []change{may("acct", roles, own)}, ""},
		{"the account may escalate", []change{may("acct", roles, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"escalate"}})},
			`resources: ["operatorconditions"]`},
		{"the account does not have the permissions itself", []change{may("acct", roles)},
			"ServiceAccount demo may not update this OperatorCondition, because ServiceAccount t1/acct, which installs the operator, is missing permissions in namespace t1: "},
		{"the account may not write Roles", []change{may("acct", own)}, `resources: ["rolebindings", "roles"], resourceNames: ["demo.v1.0.0-condition-`},
		{"the operator has the permissions anyway", []change{may("acct"), may("demo", own)}, ""},
		{"there is no account", []change{func(w *world) {
			w.Delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}})
		}}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(row.given, plain)...)
			_, err := w.reconcile()
			require.NoError(t, err)
			got := meta.FindStatusCondition(w.condition().Status.Conditions, conditionAccess)
			if row.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, metav1.ConditionFalse, got.Status)
			require.Contains(t, got.Message, row.want)
		})
	}
}

func TestTheAccessConditionIsRemovedAfterTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, may("acct"), with(func(c *operatorsv2.OperatorCondition) {
		c.Spec.Conditions = []metav1.Condition{{Type: conditionAccess, Status: metav1.ConditionTrue, Reason: "Forged"}}
	}))
	wrote, err := w.reconcile()
	require.NoError(t, err)
	require.Equal(t, []string{reports}, wrote)
	require.Len(t, w.condition().Status.Conditions, 1)
	require.Equal(t, reasonAccountLacksRules, w.condition().Status.Conditions[0].Reason)

	before := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "acct"}}
	after := before.DeepCopy()
	after.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	require.NotEmpty(t, w.r.Concerned(t.Context(), before, after), "the grant must wake the controller")
	may("acct", after.Rules...)(w)
	_, err = w.reconcile()
	require.NoError(t, err)
	require.Equal(t, "Forged", w.condition().Status.Conditions[0].Reason)
}

func TestLongListsOfConditionsFitIntoTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, with(func(c *operatorsv2.OperatorCondition) {
		for i := range 100 {
			c.Spec.Conditions = append(c.Spec.Conditions, metav1.Condition{Type: strings.Repeat("x", i+1), Status: metav1.ConditionTrue})
		}
	}))
	_, err := w.reconcile()
	require.NoError(t, err)
	require.Len(t, w.condition().Status.Conditions, condition.MaxConditions)
}

// The API server accepts messages of up to 32 KiB. A ClusterServiceVersion can name any number of ServiceAccounts, with any text.
func TestLongListsOfServiceAccountsFitIntoTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, may("acct"), with(func(*operatorsv2.OperatorCondition) {}), ofCSV(func(csv *operatorsv1alpha1.ClusterServiceVersion) {
		for i := range deployment.MaxDeployments - 1 {
			d := operatorsv1alpha1.StrategyDeploymentSpec{Name: "demo"}
			d.Spec.Template.Spec.ServiceAccountName = fmt.Sprintf("\x1b[2Jaccount-with-quite-a-long-name-%04d", i)
			csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = append(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, d)
		}
	}))
	_, err := w.reconcile()
	require.NoError(t, err)
	message := w.condition().Status.Conditions[0].Message
	require.Less(t, len(message), 32<<10)
	require.Contains(t, message, "more may not update this OperatorCondition")
	require.Contains(t, message, "missing permissions in namespace t1: ")
	require.NotContains(t, message, "\x1b")
}

// A user can write a ClusterServiceVersion with any number of ServiceAccounts, each of which can have large roles.
func TestServiceAccountsAreExaminedUpToALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0"}}
	specs := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range deployment.MaxDeployments {
		d := operatorsv1alpha1.StrategyDeploymentSpec{}
		d.Spec.Template.Spec.ServiceAccountName = fmt.Sprint("sa", i)
		*specs = append(*specs, d)
	}
	got, err := w.r.withoutAccess(t.Context(), csv)
	require.NoError(t, err)
	require.Len(t, got, deployment.MaxDeployments)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.r.withoutAccess(ctx, csv)
	require.ErrorIs(t, err, context.Canceled)
	*specs = append(*specs, (*specs)[0])
	got, err = w.r.withoutAccess(ctx, csv)
	require.NoError(t, err)
	require.Empty(t, got)
}
