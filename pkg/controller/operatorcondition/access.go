package operatorcondition

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The condition in the status that Remit adds while an operator may not update its OperatorCondition, because the
// account may not grant the permission. The operator still runs.
const (
	conditionAccess         = "OperatorAccess"
	reasonAccountLacksRules = "AccountLacksPermissions"
)

// maxLines is the maximum size, in bytes, of each list in the message.
const maxLines = 2 << 10

// setAccess adds the condition OperatorAccess. was contains the previous conditions, for the transition time.
func setAccess(after *operatorsv2.OperatorCondition, was []metav1.Condition, problem string) {
	c := metav1.Condition{
		Type: conditionAccess, Status: metav1.ConditionFalse, Reason: reasonAccountLacksRules, Message: status.Text(problem),
		ObservedGeneration: after.Generation, LastTransitionTime: metav1.Now(),
	}
	if old := meta.FindStatusCondition(was, conditionAccess); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	after.Status.Conditions = slices.DeleteFunc(after.Status.Conditions, func(o metav1.Condition) bool { return o.Type == conditionAccess })
	after.Status.Conditions = append(after.Status.Conditions, c)
}

// accessProblem returns the reason why the operator may not update its OperatorCondition, or "" if it may, if the csv
// controller can grant the permission, or if there is no account. It examines only RBAC in the cache.
func (r *Reconciler) accessProblem(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) (string, error) {
	denied, err := r.withoutAccess(ctx, csv)
	if err != nil || len(denied) == 0 {
		return "", err
	}
	account, _, err := r.Default.Lookup(r.Client).Account(ctx, csv.Namespace)
	if err != nil {
		if scoped.ReasonOf(err) != "" {
			return "", nil // the status of the ClusterServiceVersion reports this
		}
		return "", err
	}
	access, err := condition.Access(csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: csv.Namespace}, CSV: csv.Name, UID: csv.UID})
	if err != nil {
		return "", err
	}
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	report := preflight.Examine(account.Identity(), condition.Needs(csv, access), func(namespace string) rbac.Permissions { return r.RBAC.LowerBound(subject, namespace) })
	if report.Empty() {
		return "", nil
	}
	var missing []string
	for _, scope := range report.Scopes() {
		for _, rule := range scope.Rules {
			missing = append(missing, rbac.Line(rule))
		}
	}
	return fmt.Sprintf("%s may not update this OperatorCondition, because ServiceAccount %s, which installs the operator, is missing permissions in namespace %s: %s",
		status.Lines(denied, maxLines), account.Key(), csv.Namespace, status.Lines(missing, maxLines)), nil
}

// withoutAccess lists the operator's ServiceAccounts that do not have the permissions to update the OperatorCondition.
// Each can take long, so it stops when ctx ends, and examines no CSV that has more Deployments than are installed.
func (r *Reconciler) withoutAccess(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]string, error) {
	if len(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs) > deployment.MaxDeployments {
		return nil, nil // it is not installed, and its status says why
	}
	var out []string
	held := rbac.NewRecent(func(name string) rbac.Permissions {
		return r.RBAC.LowerBound(rbac.ServiceAccount(csv.Namespace, name), csv.Namespace)
	})
	for _, name := range condition.ServiceAccounts(csv) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if !condition.MayReport(held.Get(name), csv.Name) {
			out = append(out, "ServiceAccount "+name)
		}
	}
	return out, nil
}
