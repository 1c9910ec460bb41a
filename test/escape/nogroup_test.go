package escape

import (
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
)

// withoutGroup contains users who write what an account will install while the namespace has no OperatorGroup.
func withoutGroup() []row {
	const before = "remit-create-the-operatorgroup-before-the-subscription"
	subscription := func(s *scene) *operatorsv1alpha1.Subscription {
		return &operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("early"), Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace, Package: probe, Channel: forge.Channel,
		}}
	}
	return []row{
		{number: "361", title: "a Subscription that is created before the OperatorGroup", holds: p1(), play: func(s *scene) {
			c := s.author("subscriptions", "*")
			s.publish(bundleOf(csv()))
			require.ErrorContains(s.T, c.Create(s.T.Context(), subscription(s)), before)
			labeled := subscription(s)
			labeled.Labels = map[string]string{anyAccount: ""}
			require.ErrorContains(s.T, c.Create(s.T.Context(), labeled), "every ServiceAccount of namespace "+s.Namespace)
			s.group(s.Namespace)
			s.settle()
			s.nothingWritten()
		}},
		{number: "362", title: "an installed operator that is changed while its OperatorGroup is deleted", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			installed := s.Succeeded(probeCSV)
			require.Equal(s.T, s.Namespace+"/"+accountName, installed.Annotations[names.AnnotationAccount])
			c := s.authorWho(rule("operators.coreos.com", "subscriptions clusterserviceversions", "get", "create", "patch"))
			s.Eventually(func(t *assert.CollectT) {
				assert.NotEmpty(t, s.Subscription(s.T).Status.GetCondition(names.ConditionAuthorUnchecked).Message)
			})
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}))
			s.Eventually(func(t *assert.CollectT) { // the policies no longer know the OperatorGroup
				assert.ErrorContains(t, c.Create(s.T.Context(), subscription(s), client.DryRunAll), before)
			})
			refused := func(obj client.Object, kind types.PatchType, body string) {
				s.denied(c.Patch(s.T.Context(), obj, client.RawPatch(kind, []byte(body))))
			}
			refused(installed.DeepCopy(), types.JSONPatchType, `[{"op":"replace","path":"/spec/install/spec/deployments/0/spec/template/spec/containers/0/image","value":"evil.example.com/x"}]`)
			refused(s.Subscription(s.T), types.MergePatchType, `{"spec":{"config":{"env":[{"name":"LD_PRELOAD","value":"/evil.so"}]}}}`)
			s.group(s.Namespace)
			s.settle()
			s.Succeeded(probeCSV)
			s.runsUnchanged()
		}},
	}
}
