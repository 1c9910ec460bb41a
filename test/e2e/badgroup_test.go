package e2e

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	resolutionFailed = operatorsv1alpha1.SubscriptionResolutionFailed
	prevented        = "ErrorPreventedResolution"
	unsatisfiable    = "ConstraintsNotSatisfiable"
	checkFailed      = "InstallCheckFailed"
	componentFailed  = "InstallComponentFailed"
)

func TestNothingIsInstalledWithoutAnOperatorGroup(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)

	tn.SubscriptionSays(resolutionFailed, prevented, "has no OperatorGroup")
	tn.NothingWritten()

	tn.Group(env.AccountName, tn.Namespace)
	tn.Complete()
}

func TestNothingIsInstalledWithTwoOperatorGroups(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	second := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("second"),
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: tn.GroupAccount(), TargetNamespaces: []string{tn.Namespace}}}
	tn.Create(second)
	tn.Catalog("catalog", image(catalogSample))
	subscribe(tn)

	tn.SubscriptionSays(resolutionFailed, prevented, "has 2 OperatorGroups (group, second)")
	for _, group := range []string{"group", "second"} {
		tn.GroupSays(group, "MultipleOperatorGroup", metav1.ConditionTrue, "MultipleOperatorGroupsFound", "Multiple OperatorGroup")
	}
	tn.NothingWritten()

	require.NoError(t, cluster.Client.Delete(t.Context(), second))
	tn.Complete()
}

func TestNothingIsInstalledWithoutAnAccount(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	tn.Group("", tn.Namespace)

	tn.SubscriptionSays(resolutionFailed, prevented, "does not name a ServiceAccount")
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "NoAccount", "no default account is configured")
	tn.NothingWritten()
}

func TestReportsAMissingAccount(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Group("nobody", tn.Namespace)

	tn.SubscriptionSays(resolutionFailed, prevented, "ServiceAccount nobody not found")
	tn.GroupSays("group", "OperatorGroupServiceAccount", metav1.ConditionTrue, "ServiceAccountNotFound", "ServiceAccount nobody not found")
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "ServiceAccountNotFound", "nobody")
	tn.NothingWritten()
}

func TestDoesNotUseAnAccountThatIsNotEnrolled(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Withdraw()
	grantSample(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)

	tn.PlanSays(checkFailed, "not enrolled")
	tn.SubscriptionSays(operatorsv1alpha1.SubscriptionInstallPlanPending, string(operatorsv1alpha1.InstallPlanPhaseInstalling), "not enrolled")
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled", "remit-enrollment-"+env.AccountName)
	tn.NothingWritten()

	tn.Enroll()
	tn.Complete()
	tn.GroupSays("group", "AccountUsable", metav1.ConditionTrue, "Enrolled", "")
}

// The plan is blocked at its ConfigMap. Meanwhile, the account is deleted and recreated with the same name.
func TestCompletesThePlanUnderTheUIDOfARecreatedAccount(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	grantSample(tn, tn.Namespace)
	blocker := tn.Block(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-defaults"}})
	tn.Group(env.AccountName, tn.Namespace)
	tn.PlanSays(componentFailed, "blocked by the test")

	old := &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}
	require.NoError(t, tn.Get(env.AccountName, old))
	require.NoError(t, cluster.Client.Delete(t.Context(), old))
	tn.PlanSays(checkFailed, "ServiceAccount installer not found")
	blocker.Remove()
	again := &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}
	tn.Create(again)

	ip := tn.Complete()
	require.Equal(t, again.UID, ip.Status.AttenuatedServiceAccountRef.UID)
	tn.Succeeded(bundle.CSV)
	tn.GroupSays("group", "AccountChanged", metav1.ConditionTrue, "AccountRecreated", string(again.UID))
	madeBy := map[string]string{}
	for _, e := range tn.Writes() {
		if e.Created() {
			madeBy[e.Object.Resource+"/"+e.Object.Name] = e.User.UID
		}
	}
	assert.Equal(t, string(old.UID), madeBy["clusterserviceversions/"+bundle.CSV])
	assert.Equal(t, string(again.UID), madeBy["configmaps/sample-operator-defaults"])
}

// A tenant can name only an account in its own namespace, not a more privileged one in another namespace.
func TestTheAccountIsInTheGroupsNamespace(t *testing.T) {
	t.Parallel()
	tn := subscribed(t, catalogSample)
	tn.Group("remit/remit-catalog", tn.Namespace)

	tn.SubscriptionSays(resolutionFailed, prevented, "is not a valid name")
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, string(scoped.AccountNameInvalid), "is not a valid name")
	tn.NothingWritten()
}
