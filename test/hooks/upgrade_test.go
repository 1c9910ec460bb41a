package hooks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/test/env"
	samplehooks "github.com/remit-olm/remit/test/operators/sample/hooks"
)

// ignoring sets the failure policy Ignore, which admits requests if the webhook does not respond.
func ignoring(h hook) hook {
	h.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	return h
}

func TestAnUpgradeUnderLoadAddsChangesAndRemovesWebhooks(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	first := operator(1,
		validating("keep.hooker.remit.dev", "/validate"),
		ignoring(validating("change.hooker.remit.dev", "/v1/validate")),
		ignoring(mutating("remove.hooker.remit.dev", "/v1/mutate")),
	)
	second := operator(2,
		validating("keep.hooker.remit.dev", "/validate"),
		ignoring(validating("change.hooker.remit.dev", "/v2/validate")),
		mutating("add.hooker.remit.dev", "/v2/mutate"),
	)
	second.Spec.Replaces = first.Name
	grant(tn, first, tn.Namespace)
	grant(tn, second, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	install(tn, first)
	require.Equal(t, "v1", markedBy(t, tn.Namespace))

	before := &corev1.Secret{}
	require.NoError(t, tn.Get(cert.SecretName(pkg), before))
	l := startLoad(t, cluster, tn.Namespace)
	begun := time.Now()
	install(tn, second)
	rollout := time.Since(begun)
	tn.Eventually(func(c *assert.CollectT) { assert.True(c, apierrors.IsNotFound(tn.Get(first.Name, &csv{}))) })
	l.end("an upgrade that took " + rollout.Round(10*time.Millisecond).String())
	require.Less(t, l.longest, rollout, "no call must be blocked for longer than the rollout")
	require.Empty(t, admittedByFailure(t, cluster, tn.Namespace))

	// The certificate now belongs to the next version: it was not deleted with the first version, and the Pods were
	// replaced only once.
	after, d := &corev1.Secret{}, &appsv1.Deployment{}
	require.NoError(t, tn.Get(cert.SecretName(pkg), after))
	require.Equal(t, before.UID, after.UID)
	require.Equal(t, before.Data, after.Data)
	require.Len(t, after.OwnerReferences, 1)
	require.Equal(t, second.Name, after.OwnerReferences[0].Name)
	require.NoError(t, tn.Get(pkg, d))
	require.Equal(t, "2", d.Annotations["deployment.kubernetes.io/revision"])

	require.Equal(t, "v2", markedBy(t, tn.Namespace))
	require.ErrorContains(t, cluster.Client.Create(t.Context(), message(tn.Namespace, "goodbye"), client.DryRunAll), "does not say goodbye")
	list := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	require.NoError(t, cluster.Client.List(t.Context(), list, client.MatchingLabels{"olm.owner.namespace": tn.Namespace}))
	require.Len(t, list.Items, 1)
	require.Equal(t, "add.hooker.remit.dev", list.Items[0].Webhooks[0].Name)
}

func markedBy(t *testing.T, namespace string) string {
	t.Helper()
	obj := message(namespace, "hello")
	require.NoError(t, cluster.Client.Create(t.Context(), obj, client.DryRunAll))
	return obj.Labels[samplehooks.Label]
}
