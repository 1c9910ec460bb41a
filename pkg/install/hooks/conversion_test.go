package hooks_test

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/proofs"
)

func rule(group, resource string, resourceNames []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: resourceNames, Verbs: verbs}
}

// converted returns a world whose operator has a conversion webhook for a CustomResourceDefinition. The
// CustomResourceDefinition belongs to the lineage unless foreign is true.
func converted(t *testing.T, foreign bool) (*world, *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w := newWorld(t, func(w *world) {
		crd.Name = "things." + w.api
		w.csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: crd.Name}}
		w.csv.Spec.WebhookDefinitions = []description{{
			GenerateName: "c", Type: operatorsv1alpha1.ConversionWebhook, DeploymentName: name, ContainerPort: 443,
			AdmissionReviewVersions: []string{"v1"}, ConversionCRDs: []string{crd.Name},
		}}
	})
	crd.Spec.Group, crd.Spec.Scope = w.api, apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", Plural: "things"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
	}}
	if !foreign {
		proofs.Mark(crd, w.owner)
	}
	w.Create(crd)
	return w, crd
}

func (w *world) conversion(crd client.Object) *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	out := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w.t, cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(crd), out))
	return out
}

func TestAConversionIsSetRotatedAndReset(t *testing.T) {
	t.Parallel()
	w, crd := converted(t, false)
	w.reconcile()
	got := w.conversion(crd)
	service, ok := webhook.CalledAt(got)
	require.True(t, ok)
	require.Equal(t, w.Namespace+"/demo-service", service.String())
	require.Equal(t, string(w.secret().Data[cert.KeyCA]), string(webhook.Bundle(got)))
	require.NotNil(t, got.Spec.Versions[0].Schema, "the rest of the spec is unchanged")

	w.now = w.now.Add(cert.DefaultLife/3*2 + time.Hour)
	require.Equal(t, cert.Stage, w.reconcile().Done)
	require.True(t, cert.Trusts(webhook.Bundle(w.conversion(crd)), w.secret().Data["next.olmCAKey"]))

	p, live := w.plan()
	changed, err := w.installer().Off(t.Context(), p, live, name, accepted)
	require.NoError(t, err)
	require.Empty(t, changed, "stored objects must remain readable")

	w.csv.Spec.WebhookDefinitions = nil
	p, live = w.plan()
	_, err = w.installer().Prune(t.Context(), p, live)
	require.NoError(t, err)
	got = w.conversion(crd)
	require.Equal(t, apiextensionsv1.NoneConverter, got.Spec.Conversion.Strategy)
	require.Equal(t, names.ConversionReset, got.Annotations["remit.dev/conversion"], "the annotation is for the next install")
}

func TestARotationRequiresPermissionToPatchConversions(t *testing.T) {
	t.Parallel()
	w, crd := converted(t, false)
	w.reconcile()
	p, live := w.plan()
	var asked []rbacv1.PolicyRule
	_, err := w.installer().Certify(t.Context(), p, live, p.Served[0], func(needs ...hooks.Need) error {
		for _, n := range needs {
			asked = append(asked, n.Rules...)
		}
		return nil
	})
	require.NoError(t, err)
	require.Contains(t, asked, rule("apiextensions.k8s.io", "customresourcedefinitions", []string{crd.Name}, "patch"))
	require.Contains(t, asked, rule("apps", "deployments", []string{name}, "create", "get", "patch"))
}

func TestAForeignConversionIsNeverChanged(t *testing.T) {
	t.Parallel()
	w, crd := converted(t, true)
	w.csv.Spec.WebhookDefinitions = append(w.csv.Spec.WebhookDefinitions, w.hook("a.demo.acme.io"))
	p, live := w.plan()
	_, err := w.installer().Ensure(t.Context(), p, live, name)
	require.True(t, apply.IsCollision(err), "%v", err)
	require.ErrorContains(t, err, "its custom resources would be deleted with it, so keep it, and find out what else installed it")
	w.csv.Spec.WebhookDefinitions = nil
	p, live = w.plan()
	_, err = w.installer().Prune(t.Context(), p, live)
	require.NoError(t, err)
	require.Equal(t, crd.Generation, w.conversion(crd).Generation)
	require.Empty(t, w.conversion(crd).Annotations)
}

func TestAConversionTakenOverByAnotherOwnerIsNotReset(t *testing.T) {
	t.Parallel()
	w, crd := converted(t, false)
	w.reconcile()
	before := w.conversion(crd)
	got := before.DeepCopy()
	got.Spec.Conversion.Webhook.ClientConfig.Service.Name = "another"
	require.NoError(t, cluster.Client.Patch(t.Context(), got, client.MergeFrom(before))) // the API server concurrently changes the status
	_, crds, err := hooks.Remains(t.Context(), cluster.Client, w.owner)
	require.NoError(t, err)
	require.Empty(t, crds)
}
