package installplan

import (
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step/build"
)

// earlierCSV is an installed version with a role for the whole cluster, a webhook and an API. Whoever may write its spec determines the
// name of the APIService, which can be that of another tenant.
const earlierCSV = `
metadata: {namespace: ns, name: demo.v0.9.0, uid: earlier}
spec:
  version: 0.9.0
  installModes: [{type: OwnNamespace, supported: true}, {type: SingleNamespace, supported: true}]
  apiservicedefinitions: {owned: [{group: victim.example.com, version: v1, kind: Thing, name: things, deploymentName: demo, containerPort: 443}]}
  webhookdefinitions: [` + demoWebhook + `]
  install:
    strategy: deployment
    spec:
      clusterPermissions: [{serviceAccountName: demo, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}]
      deployments:
      - name: demo
        spec:
          selector: {matchLabels: {app: demo}}
          template:
            metadata: {labels: {app: demo}}
            spec: {serviceAccountName: demo, containers: [{name: manager, image: "images.test/demo:1"}]}
`

// earlierRBAC returns the role and the binding of the installed version outside its namespace.
func earlierRBAC(t *testing.T, csv *operatorsv1alpha1.ClusterServiceVersion) (role *rbacv1.ClusterRole, binding *rbacv1.ClusterRoleBinding) {
	t.Helper()
	owner := lineage("demo")
	owner.CSV, owner.UID = csv.Name, csv.UID
	all, err := build.OperatorRBAC(csv, owner, []string{"ns"})
	require.NoError(t, err)
	role, binding = &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	for _, obj := range all {
		switch obj.GetKind() {
		case "ClusterRole":
			require.NoError(t, apply.Decode(obj, role))
		case "ClusterRoleBinding":
			require.NoError(t, apply.Decode(obj, binding))
		}
	}
	require.NotEmpty(t, role.Name)
	require.NotEmpty(t, binding.Name)
	return role, binding
}

func TestAnUpgradeAsksToRemoveOnlyWhatBelongsToTheInstall(t *testing.T) {
	t.Parallel()
	csv := parsed(t, earlierCSV, &operatorsv1alpha1.ClusterServiceVersion{})
	api := func() *apiregistrationv1.APIService {
		return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.victim.example.com", UID: "api"}}
	}
	role, rolebinding := earlierRBAC(t, csv)
	hook := webhook.Name(&operatorsv1alpha1.WebhookDescription{GenerateName: "v.example.com", Type: "ValidatingAdmissionWebhook"}, lineage("demo").Lineage)
	labeled := api()
	labeled.Labels = lineage("demo").Labels()
	const apis, roles = `"apiservices"`, `"clusterrolebindings", "clusterroles"`
	for name, row := range map[string]struct {
		live    []client.Object
		removed []string
	}{
		"nothing exists":                   {nil, nil},
		"the API of another tenant":        {[]client.Object{api()}, nil},
		"the API of another install":       {[]client.Object{createdFor("other", api())}, nil},
		"the API with the install's label": {[]client.Object{labeled}, nil},
		"the install's API":                {[]client.Object{createdFor("demo", api())}, []string{apis}},
		"roles of another user":            {[]client.Object{role, rolebinding}, nil},
		"the install's roles": {
			[]client.Object{createdFor("demo", role.DeepCopy()), createdFor("demo", rolebinding.DeepCopy()), api()}, []string{roles},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, without(binding("all")), with(csv), with(row.live...), func(w *world) { w.pin.Replaces = csv.Name })
			require.Equal(t, "True "+names.ReasonAccountLacksPermissions, w.reconcile().missing)
			for _, resource := range []string{apis, roles} {
				require.Equal(t, slices.Contains(row.removed, resource), strings.Contains(w.plan.Status.Message, "cannot delete resource "+resource), w.plan.Status.Message)
			}
			require.Contains(t, w.plan.Status.Message, `cannot delete resource "validatingwebhookconfigurations"`)
			require.Contains(t, w.plan.Status.Message, hook, "its name shows that it belongs to the install")
			w.Requests()
			w.reconcile()
			require.Empty(t, w.Requests(), "a waiting plan sends no requests")
		})
	}
}
