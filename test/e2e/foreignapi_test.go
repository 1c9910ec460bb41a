package e2e

import (
	"context"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// foreignAPI creates the APIService of another tenant, and returns it and a description that claims it.
func foreignAPI(t *testing.T) (*apiregistrationv1.APIService, operatorsv1alpha1.APIServiceDescription) {
	t.Helper()
	group := "victim-" + rand.String(5) + ".example.com"
	api := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}, Spec: apiregistrationv1.APIServiceSpec{
		Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "victim"},
	}}
	require.NoError(t, cluster.Client.Create(t.Context(), api))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), api) })
	return api, operatorsv1alpha1.APIServiceDescription{Name: "things", Group: group, Version: "v1", Kind: "Thing"}
}

// A tenant creates a ClusterServiceVersion with the label of a lineage, which was never installed and claims another tenant's API.
func TestAVersionThatWasNeverInstalledRemovesNothing(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	api, claim := foreignAPI(t)
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, yaml.Unmarshal([]byte(env.PlainCSV("evil", "")), csv))
	csv.ObjectMeta = tn.Meta("evil.v0.0.1")
	csv.Labels = map[string]string{names.LabelLineage: ownerutil.Lineage{Package: bundle.Package, Namespace: tn.Namespace}.Mark()}
	claim.DeploymentName = csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name
	csv.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{claim}
	tn.Create(csv)
	out, _ := preflightOf(t, missing, "../operators/sample/bundle", "-n", tn.Namespace)
	require.Contains(t, out, csv.Name)
	require.NotContains(t, out, api.Name)
}

// While an upgrade waits for a permission, a user who may write the installed version claims another tenant's API in it.
func TestTheReportOfAnUpgradeContainsNoAPIOfOthers(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := following(t)
	api, claim := foreignAPI(t)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	v1 := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, tn.Get("a.v1.0.0", v1))
	before := v1.DeepCopy()
	claim.DeploymentName = v1.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name
	v1.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{claim}
	tn.Publish("catalog", releasesV1, releasesV2+" reads=nodes")
	says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, "nodes")
	require.NoError(t, cluster.Client.Patch(t.Context(), v1, client.MergeFrom(before)))

	for range 20 { // not require.Never, which leaves a request behind that ends with the test
		require.NotContains(t, subscriptions(t, tn)["a"].Status.GetCondition(names.ConditionPermissionsMissing).Message, api.Name)
		time.Sleep(200 * time.Millisecond)
	}
	require.NoError(t, tn.Get("a.v1.0.0", v1))
	require.NotEmpty(t, v1.Spec.APIServiceDefinitions.Owned)
	require.Contains(t, subscriptions(t, tn)["a"].Status.GetCondition(names.ConditionPermissionsMissing).Message, "nodes")
}
