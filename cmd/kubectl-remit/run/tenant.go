package run

import (
	"context"
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
)

// accountName is the ServiceAccount whose permissions bound the demonstration's installs.
const accountName = "installer"

// tenant is a namespace into which one package is installed.
type tenant struct {
	*demo
	namespace string
	pkg       string
	// targets are the OperatorGroup's targets; none means all namespaces.
	targets []string
	// channel and startingCSV are set in the Subscription; if empty, the catalog's defaults apply.
	channel     string
	startingCSV string
}

func (t *tenant) account() types.NamespacedName {
	return types.NamespacedName{Namespace: t.namespace, Name: accountName}
}

func (t *tenant) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.namespace, Name: name}
}

// prepare creates the namespace with its enrolled account and the OperatorGroup that names it.
func (t *tenant) prepare(ctx context.Context) error {
	objs := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}},
		&corev1.ServiceAccount{ObjectMeta: t.meta(accountName)},
	}
	objs = append(objs, scoped.Enrollment(t.account(), names.DefaultNamespace)...)
	objs = append(objs,
		&operatorsv1.OperatorGroup{
			ObjectMeta: t.meta("demo"),
			Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, TargetNamespaces: t.targets},
		})
	for _, obj := range objs {
		if err := t.client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// grant applies the RBAC of a report as the cluster's administrator.
func (t *tenant) grant(ctx context.Context, report preflight.Report) error {
	for _, obj := range report.Objects() {
		u, err := apply.Object(obj)
		if err != nil {
			return err
		}
		if err := t.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("kubectl-remit")); err != nil {
			return fmt.Errorf("apply %s: %w", apply.Describe(obj), err)
		}
	}
	return nil
}

// subscribe creates the Subscription to the package.
func (t *tenant) subscribe(ctx context.Context) error {
	return t.client.Create(ctx, &operatorsv1alpha1.Subscription{
		ObjectMeta: t.meta(t.pkg),
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: catalogName, CatalogSourceNamespace: names.DefaultCatalogNamespace, Package: t.pkg,
			Channel: t.channel, StartingCSV: t.startingCSV,
		},
	})
}

func (t *tenant) subscription(ctx context.Context) (*operatorsv1alpha1.Subscription, error) {
	sub := &operatorsv1alpha1.Subscription{}
	err := t.client.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: t.pkg}, sub)
	return sub, err
}

// blocked returns the report in the Subscription's status, or an error if there is none yet.
func (t *tenant) blocked(ctx context.Context) (string, error) {
	sub, err := t.subscription(ctx)
	if err != nil {
		return "", err
	}
	c := sub.Status.GetCondition(names.ConditionPermissionsMissing)
	if c.Status != corev1.ConditionTrue {
		return "", fmt.Errorf("no missing permissions are reported yet")
	}
	return c.Message, nil
}

// planComplete returns nil if the InstallPlan of the Subscription is complete. It returns a blockedError if the install
// cannot continue until the user intervenes.
func (t *tenant) planComplete(ctx context.Context) error {
	sub, err := t.subscription(ctx)
	if err != nil {
		return err
	}
	if c := sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed); c.Status == corev1.ConditionTrue {
		err := fmt.Errorf("%s: %s", c.Reason, c.Message)
		if c.Reason == resolver.ConstraintsNotSatisfiable {
			return blockedError{err}
		}
		return err
	}
	if sub.Status.InstallPlanRef == nil {
		return fmt.Errorf("Subscription %s/%s has no InstallPlan yet", sub.Namespace, sub.Name)
	}
	ip := &operatorsv1alpha1.InstallPlan{}
	if err := t.client.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: sub.Status.InstallPlanRef.Name}, ip); err != nil {
		return err
	}
	if ip.Status.Phase == operatorsv1alpha1.InstallPlanPhaseComplete {
		return nil
	}
	err = fmt.Errorf("InstallPlan %s/%s is %s: %s", ip.Namespace, ip.Name, ip.Status.Phase, ip.Status.Message)
	if isBlocked(ip) {
		return blockedError{err}
	}
	return err
}

// isBlocked reports whether a plan has failed or is waiting for the user to change something.
func isBlocked(ip *operatorsv1alpha1.InstallPlan) bool {
	isTrue := func(t operatorsv1alpha1.InstallPlanConditionType) bool {
		return ip.Status.GetCondition(t).Status == corev1.ConditionTrue
	}
	return ip.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed || isTrue(names.ConditionPermissionsMissing) || isTrue(names.ConditionObjectsRefused)
}

// installed returns nil if the Subscription reports the operator as installed, and the operator has succeeded.
func (t *tenant) installed(ctx context.Context) error {
	sub, err := t.subscription(ctx)
	if err != nil {
		return err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := t.client.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: sub.Status.CurrentCSV}, csv); err != nil {
		return err
	}
	isLatest := sub.Status.InstalledCSV == csv.Name && sub.Status.State == operatorsv1alpha1.SubscriptionStateAtLatest
	if isLatest && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded {
		return nil
	}
	return fmt.Errorf("ClusterServiceVersion %s/%s is %s, %s: %s%s", csv.Namespace, csv.Name, csv.Status.Phase, csv.Status.Reason, csv.Status.Message, unmet(csv))
}

// unmet lists the requirements that the ClusterServiceVersion is waiting for.
func unmet(csv *operatorsv1alpha1.ClusterServiceVersion) string {
	var out strings.Builder
	for _, r := range csv.Status.RequirementStatus {
		if r.Status != operatorsv1alpha1.RequirementStatusReasonPresent {
			message.Fprintf(&out, "\n%s %s: %s", r.Kind, r.Name, r.Message)
		}
	}
	return out.String()
}
