package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

// byHand creates a ClusterServiceVersion without an InstallPlan, and waits until it has succeeded.
func byHand(tn *env.Tenant, name string, edit func(*operatorsv1alpha1.ClusterServiceVersionSpec)) {
	tn.T.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(tn.T, yaml.Unmarshal([]byte(env.PlainCSV("plain", "")), csv))
	csv.ObjectMeta = tn.Meta(name)
	csv.Spec.InstallModes = []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	edit(&csv.Spec)
	tn.Create(csv)
	tn.Eventually(func(c *assert.CollectT) {
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, tn.CSV(c, name).Status.Phase)
	})
}

// grantEverything allows the account to do everything in its namespace, or cluster-wide for rbac.ClusterScope.
func grantEverything(tn *env.Tenant, scope string) {
	tn.T.Helper()
	tn.Grant(scope, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
}

// The Deployment keeps its UID, so it was taken over rather than recreated.
func TestAVersionThatAUserCreatesTakesOverTheDeploymentOfOneWithAnotherName(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grantEverything(tn, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	version := func(name, replaces string) {
		byHand(tn, name, func(s *operatorsv1alpha1.ClusterServiceVersionSpec) { s.Replaces = replaces })
	}
	version("first", "")
	before := &appsv1.Deployment{}
	require.NoError(t, tn.Get("plain", before))

	version("second", "first")
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(tn.Get("first", &operatorsv1alpha1.ClusterServiceVersion{})))
	})
	version("third", "second")
	after := &appsv1.Deployment{}
	require.NoError(t, tn.Get("plain", after))
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, "third", after.Labels["olm.owner"])
}

func TestALeftoverWebhookIsRemovedWhenTheNamespaceHasAnAccountAgain(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grantEverything(tn, rbac.ClusterScope)
	og := tn.Group(env.AccountName, tn.Namespace)
	byHand(tn, "called", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
			Type: operatorsv1alpha1.ValidatingAdmissionWebhook, GenerateName: "left.e2e.test", DeploymentName: "plain", ContainerPort: 443,
			AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"left.e2e.test"}, APIVersions: []string{"v1"}, Resources: []string{"things"}}}},
		}}
	})
	webhooks := func(c assert.TestingT) int {
		list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: tn.Namespace}))
		return len(list.Items)
	}
	require.Equal(t, 1, webhooks(t))

	require.NoError(t, cluster.Client.Delete(t.Context(), og))
	tn.Eventually(func(c *assert.CollectT) { // otherwise, Remit may remove the webhook as the account before it observes the deletion
		assert.Equal(c, operatorsv1alpha1.CSVReasonNoOperatorGroup, tn.CSV(c, "called").Status.Reason)
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: tn.Meta("called")}))
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(tn.Get("called", &operatorsv1alpha1.ClusterServiceVersion{})))
	})
	if !cluster.IsCompat() { // the default account removes it without an OperatorGroup
		require.Equal(t, 1, webhooks(t), "no account may remove it")
		tn.Group(env.AccountName, tn.Namespace)
	}
	tn.Eventually(func(c *assert.CollectT) { assert.Zero(c, webhooks(c)) })
}
