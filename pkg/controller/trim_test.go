package controller

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/install/requirement"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	proving "github.com/remit-olm/remit/test/env/proofs"
)

// unread marks texts that a cache must not contain.
const unread = "unread"

// cached returns the object that a program's cache contains. Informers call the transform twice for their first objects.
func cached[T client.Object](t *testing.T, trim func(client.Object), obj T) T {
	t.Helper()
	to := transform(trim)
	out, _ := obj.DeepCopyObject().(T)
	for range 2 {
		got, err := to(out)
		require.NoError(t, err)
		out, _ = got.(T)
	}
	text, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(text), unread)
	return out
}

func TestCachesContainNoManagedFieldsAndNoAppliedConfiguration(t *testing.T) {
	meta := metav1.ObjectMeta{
		Name: "x", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: unread}},
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: unread, "a": "b"},
	}
	content := &unstructured.Unstructured{Object: map[string]any{"kind": "CatalogSource", "apiVersion": "operators.coreos.com/v1alpha1"}}
	content.SetName("x")
	content.SetManagedFields(meta.ManagedFields)
	content.SetAnnotations(meta.Annotations)
	for _, trim := range []func(client.Object){nil, Trim, TrimForCatalog, TrimForOLM} {
		for _, obj := range []client.Object{&rbacv1.Role{ObjectMeta: meta}, &metav1.PartialObjectMetadata{ObjectMeta: meta}, content} {
			require.Equal(t, map[string]string{"a": "b"}, cached(t, trim, obj).GetAnnotations())
		}
	}
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "x"}
	got, err := transform(Trim)(tombstone)
	require.NoError(t, err)
	require.Equal(t, tombstone, got)
}

func TestCachesContainNoSchemas(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Description: unread},
	}}}
	require.Equal(t, []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}, cached(t, nil, crd).Spec.Versions)
}

func TestCachesContainNoContentOfInstallPlans(t *testing.T) {
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{names.AnnotationPlan: "[]", names.AnnotationContent: unread},
	}}
	require.Equal(t, map[string]string{names.AnnotationPlan: "[]"}, cached(t, TrimForCatalog, plan).Annotations)
	cached(t, nil, &operatorsv1alpha1.InstallPlan{})
}

func TestCachesContainNoManifestsOfCompleteInstallPlans(t *testing.T) {
	for phase, manifest := range map[operatorsv1alpha1.InstallPlanPhase]string{
		operatorsv1alpha1.InstallPlanPhaseComplete: unread, operatorsv1alpha1.InstallPlanPhaseInstalling: "{}", operatorsv1alpha1.InstallPlanPhaseFailed: "{}",
	} {
		shown := &operatorsv1alpha1.Step{
			Resource: operatorsv1alpha1.StepResource{Kind: "Role", Name: "x", Manifest: manifest}, Status: operatorsv1alpha1.StepStatusCreated,
		}
		plan := &operatorsv1alpha1.InstallPlan{Status: operatorsv1alpha1.InstallPlanStatus{Phase: phase, Plan: []*operatorsv1alpha1.Step{shown, nil}}}
		want := shown.DeepCopy()
		want.Resource.Manifest = strings.TrimPrefix(manifest, unread)
		require.Equal(t, []*operatorsv1alpha1.Step{want, nil}, cached(t, TrimForCatalog, plan).Status.Plan, phase)
	}
}

// cmd/olm shows the phase and conditions of a plan in Operators, and must not copy a ClusterServiceVersion that a plan creates.
func TestOLMReadsNoStepsOfInstallPlans(t *testing.T) {
	plan := &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1", Annotations: map[string]string{names.AnnotationPlan: unread}},
		Spec:       operatorsv1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{"demo.v1"}},
		Status: operatorsv1alpha1.InstallPlanStatus{
			Phase: operatorsv1alpha1.InstallPlanPhaseInstalling, Plan: []*operatorsv1alpha1.Step{{Resolving: unread}}, CatalogSources: []string{unread},
			BundleLookups: []operatorsv1alpha1.BundleLookup{{Path: unread}}, Conditions: []operatorsv1alpha1.InstallPlanCondition{{Type: "Installed", Message: "m"}},
		},
	}
	got := cached(t, TrimForOLM, plan)
	require.Equal(t, plan.Spec, got.Spec)
	require.Equal(t, plan.UID, got.UID)
	require.Equal(t, plan.Status.Phase, got.Status.Phase)
	require.Equal(t, plan.Status.Conditions, got.Status.Conditions)
}

func TestOLMReadsNoCatalogHealth(t *testing.T) {
	sub := &operatorsv1alpha1.Subscription{Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo", Config: &operatorsv1alpha1.SubscriptionConfig{}}}
	sub.Status = operatorsv1alpha1.SubscriptionStatus{
		CurrentCSV: "demo.v2", InstalledCSV: "demo.v1", InstallPlanRef: &corev1.ObjectReference{Name: "p", UID: "1"},
		Conditions:    []operatorsv1alpha1.SubscriptionCondition{{Type: operatorsv1alpha1.SubscriptionInstallPlanPending}},
		CatalogHealth: []operatorsv1alpha1.SubscriptionCatalogHealth{{CatalogSourceRef: &corev1.ObjectReference{Name: unread}}},
	}
	want := sub.DeepCopy()
	want.Status.CatalogHealth = nil
	require.Equal(t, want, cached(t, TrimForOLM, sub))
	cached(t, TrimForOLM, &operatorsv1alpha1.Subscription{})
}

func TestOnlyOLMReadsTheStatusOfOperatorGroups(t *testing.T) {
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: "og", Annotations: map[string]string{"olm.providedAPIs": "a"}}}
	group.Spec = operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{"t1"}, StaticProvidedAPIs: true}
	want := group.DeepCopy()
	group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{unread}, Conditions: []metav1.Condition{{Message: unread}}}
	require.Equal(t, want, cached(t, TrimForCatalog, group))
	group.Status = operatorsv1.OperatorGroupStatus{Namespaces: []string{"t1"}, Conditions: []metav1.Condition{{Message: "m"}}}
	require.Equal(t, group, cached(t, TrimForOLM, group))
}

// Copies contain everything, and the size of the spec limits that of the status.
func TestOLMReadsCompleteClusterServiceVersions(t *testing.T) {
	csv := installedCSV("shown")
	require.Equal(t, csv, cached(t, TrimForOLM, csv))
}

// installedCSV returns a ClusterServiceVersion that serves a webhook and an API, with a text wherever users see one.
func installedCSV(text string) *operatorsv1alpha1.ClusterServiceVersion {
	descriptors := []operatorsv1alpha1.SpecDescriptor{{Path: text}}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
		Namespace: "t1", Name: "demo.v1", UID: "csv", Generation: 2, Finalizers: []string{"a/b"}, Labels: map[string]string{"operators.coreos.com/demo.t1": ""},
		Annotations: map[string]string{
			"alm-examples": text, "description": text, "operators.operatorframework.io/builder": text, "console.openshift.io/plugins": text,
			"features.operators.openshift.io/fips": text,
			names.AnnotationProperties:             `{"properties":[]}`, names.AnnotationTargetNamespaces: "t1", "olm.skipRange": "<1.0.0",
			"cert-manager.io/inject-ca-from": "t1/cert",
		},
	}}
	spec := &csv.Spec
	spec.Description, spec.DisplayName, spec.Icon = text, text, []operatorsv1alpha1.Icon{{Data: text}}
	spec.Keywords, spec.Maintainers, spec.Links = []string{text}, []operatorsv1alpha1.Maintainer{{Name: text}}, []operatorsv1alpha1.AppLink{{Name: text}}
	spec.Provider.Name, spec.Maturity, spec.RelatedImages = text, text, []operatorsv1alpha1.RelatedImage{{Name: text}}
	spec.Replaces, spec.InstallModes = "demo.v0", []operatorsv1alpha1.InstallMode{{Type: "OwnNamespace", Supported: true}}
	for _, list := range []*[]operatorsv1alpha1.CRDDescription{&spec.CustomResourceDefinitions.Owned, &spec.CustomResourceDefinitions.Required} {
		*list = []operatorsv1alpha1.CRDDescription{{Name: "things.x.io", Version: "v1", Kind: "Thing", Description: text, SpecDescriptors: descriptors}}
	}
	for _, list := range []*[]operatorsv1alpha1.APIServiceDescription{&spec.APIServiceDefinitions.Owned, &spec.APIServiceDefinitions.Required} {
		*list = []operatorsv1alpha1.APIServiceDescription{{
			Group: "y.io", Version: "v1", Kind: "Other", Name: "others", DeploymentName: "demo", ContainerPort: 8443, DisplayName: text, SpecDescriptors: descriptors,
		}}
	}
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{
		GenerateName: "hook.x.io", Type: operatorsv1alpha1.MutatingAdmissionWebhook, DeploymentName: "demo", ContainerPort: 9443, FailurePolicy: &fail,
		SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, WebhookPath: ptr.To("/hook"),
		Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		}}},
	}}
	labels := map[string]string{"app": "demo"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	grants := []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "demo", Rules: rules}}
	spec.InstallStrategy = operatorsv1alpha1.NamedInstallStrategy{StrategyName: "deployment", StrategySpec: operatorsv1alpha1.StrategyDetailsDeployment{
		Permissions: grants, ClusterPermissions: grants, DeploymentSpecs: []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "demo", Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"a": text}},
				Spec:       corev1.PodSpec{ServiceAccountName: "demo", Containers: []corev1.Container{{Name: "manager", Image: text}}},
			},
		}}},
	}}
	csv.Status.Phase = operatorsv1alpha1.CSVPhaseFailed
	csv.Status.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: "Pending", Message: text}, {Phase: "Succeeded", Message: text}}
	csv.Status.RequirementStatus = []operatorsv1alpha1.RequirementStatus{
		{Kind: "CustomResourceDefinition", Message: text, Status: requirement.Present},
		{Kind: "ServiceAccount", UUID: "acct", Message: install.AccountNotCovering + "get secrets", Dependents: []operatorsv1alpha1.DependentStatus{{Message: text}}},
	}
	return csv
}

// readByCatalog returns what cmd/catalog determines from an installed ClusterServiceVersion.
func readByCatalog(t *testing.T, csv *operatorsv1alpha1.ClusterServiceVersion) []any {
	t.Helper()
	to := csv.DeepCopy()
	to.Name, to.Spec.InstallStrategy.StrategySpec.Permissions = "demo.v2", nil
	obj, err := apply.Object(to)
	require.NoError(t, err)
	obj.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	replacing := step.Step{Object: obj, Install: &step.Install{Targets: []string{"t1"}},
		Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v2", UID: "to"}}
	needs, err := preflight.Succession{From: csv, To: replacing, Steps: []step.Step{replacing}, Targets: []string{"t1"},
		Owned: func(step.Step) bool { return true }, HandsOver: func(step.Step) bool { return true }}.Needs()
	require.NoError(t, err)
	require.Greater(t, len(needs), 5)
	changes := preflight.ChangesOf(csv, to, "t1", []string{"t1"})
	require.NotEmpty(t, changes)
	apis := provided.Of(csv)
	require.Len(t, apis, 2)
	excess := install.ExceedsAccount(csv, "acct")
	require.NotEmpty(t, excess)
	succeeded := false
	for _, c := range csv.Status.Conditions {
		succeeded = succeeded || c.Phase == operatorsv1alpha1.CSVPhaseSucceeded
	}
	require.True(t, succeeded)
	properties, owned := csv.Annotations[names.AnnotationProperties], csv.Spec.CustomResourceDefinitions.Owned[0]
	required, api := csv.Spec.CustomResourceDefinitions.Required[0], csv.Spec.APIServiceDefinitions.Required[0]
	require.NotEmpty(t, properties)
	deployments := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	return []any{
		needs, changes, apis, excess, csv.Status.Phase, csv.Spec.Version, properties, owned.Name + owned.Version + owned.Kind, required.Name + required.Version + required.Kind,
		api.Group + api.Version + api.Kind, deployments[0].Name, deployments[0].Spec.Selector, deployments[0].Spec.Template.Labels,
		serving.Subject(csv, "demo"), csv.Name, csv.UID, csv.Generation, csv.Finalizers, csv.Labels,
		csv.Spec.Replaces,
	}
}

func TestCatalogReadsNoDescriptionsOfClusterServiceVersions(t *testing.T) {
	csv := installedCSV(unread)
	require.Equal(t, readByCatalog(t, csv), readByCatalog(t, cached(t, TrimForCatalog, csv)))
	csv.Status.Conditions = csv.Status.Conditions[:1]
	require.Empty(t, cached(t, TrimForCatalog, csv).Status.Conditions, "it has never succeeded")
	cached(t, TrimForCatalog, &operatorsv1alpha1.ClusterServiceVersion{})
}

// An object of 1.3 MB can have 24,000 APIs, which take 20 times as much memory.
func TestCachesContainNoLongListsOfAPIs(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	defined := make([]operatorsv1alpha1.CRDDescription, 2*bundle.MaxOwned)
	served := make([]operatorsv1alpha1.APIServiceDescription, 2*bundle.MaxOwned)
	csv.Spec.CustomResourceDefinitions = operatorsv1alpha1.CustomResourceDefinitions{Owned: defined, Required: defined}
	csv.Spec.APIServiceDefinitions = operatorsv1alpha1.APIServiceDefinitions{Owned: served, Required: served}
	want := bundle.ValidateCSV(csv).Error()
	require.Contains(t, want, "has more than 2000 entries")
	for _, trim := range []func(client.Object){Trim, TrimForCatalog, TrimForOLM} {
		got := cached(t, trim, csv.DeepCopy())
		require.Equal(t, want, bundle.ValidateCSV(got).Error())
		all := []int{cap(got.Spec.CustomResourceDefinitions.Owned), cap(got.Spec.CustomResourceDefinitions.Required), cap(got.Spec.APIServiceDefinitions.Owned), cap(got.Spec.APIServiceDefinitions.Required)}
		require.Less(t, slices.Max(all), 2*bundle.MaxOwned)
	}
}

// Event handlers read these lists of a ClusterServiceVersion that is refused because of them.
func TestCachesContainNoLongListsOfWebhooksAndPermissions(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.WebhookDefinitions = make([]operatorsv1alpha1.WebhookDescription, 11_500)
	strategy := &csv.Spec.InstallStrategy.StrategySpec
	strategy.Permissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, 35_000)
	strategy.ClusterPermissions = strategy.Permissions
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	for _, trim := range []func(client.Object){Trim, TrimForCatalog, TrimForOLM} {
		got := cached(t, trim, csv.DeepCopy())
		require.ErrorContains(t, webhook.CheckSize(got), "at most 500 are supported")
		require.ErrorContains(t, bundle.ValidateCSV(got), "permissions and clusterPermissions: a list has more than 10000 entries")
		kept := got.Spec.InstallStrategy.StrategySpec
		require.Len(t, got.Spec.WebhookDefinitions, webhook.MaxDescriptions+1)
		require.Equal(t, []int{bundle.MaxPermissions + 1, bundle.MaxPermissions + 1}, []int{len(kept.Permissions), len(kept.ClusterPermissions)})
	}
}

func TestDeploymentsAreComparedByHash(t *testing.T) {
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo"}}
	want.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Name: "manager", Image: "a"}}, InitContainers: []corev1.Container{{Name: "init", Image: "b"}},
	}
	live := want.DeepCopy()
	live.UID, live.Generation = "1", 2
	live.OwnerReferences = []metav1.OwnerReference{{UID: "csv"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1", UID: "csv", Proofs: proving.Keys()}
	proving.Mark(live, owner)
	pods := &live.Spec.Template
	pods.Annotations = map[string]string{names.AnnotationTargetNamespaces: "t1,t2", names.AnnotationCAHash: "hash", "alm-examples": unread}
	pods.Labels = map[string]string{"a": unread}
	pods.Spec.Containers[0].Image, pods.Spec.InitContainers[0].Image = "c", "d"
	pods.Spec.Containers[0].Command, pods.Spec.NodeName = []string{unread}, unread
	live.Spec.Replicas, live.Status = ptr.To(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 2, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}, {Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"},
	}}
	read := func(d *appsv1.Deployment) []any {
		scaled := deployment.Status(d, nil)
		require.False(t, scaled.Ready)
		require.True(t, deployment.Of(d, owner))
		require.Len(t, deployment.OtherImages(d, want), 2)
		return []any{
			scaled, deployment.OtherImages(d, want), d.ObjectMeta, d.Status, d.Spec.Template.Annotations[names.AnnotationTargetNamespaces],
			d.Spec.Template.Annotations[names.AnnotationCAHash],
		}
	}
	for _, trim := range []func(client.Object){TrimForCatalog, TrimForOLM} {
		require.Equal(t, read(live), read(cached(t, trim, live)))
		cached(t, trim, &appsv1.Deployment{})
	}
}

// The controller of Operators compares their status only as a whole.
func TestOLMReadsNoComponentsOfOperators(t *testing.T) {
	op := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: "demo.t1", UID: types.UID("1"), ResourceVersion: "7", Annotations: map[string]string{names.AnnotationProof: "p"}}}
	op.Status.Components = &operatorsv1.Components{Refs: []operatorsv1.RichReference{{ObjectReference: &corev1.ObjectReference{Name: unread}}}}
	got := cached(t, TrimForOLM, op)
	require.Equal(t, op.Annotations, got.Annotations)
	require.Equal(t, "7", got.ResourceVersion)
}
