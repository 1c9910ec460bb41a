package adopt

import (
	"encoding/json"
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/test/env"
)

// Field managers of OLM's two programs.
const (
	byCatalog = client.FieldOwner("catalog")
	byOLM     = client.FieldOwner("olm")
)

type (
	csv = operatorsv1alpha1.ClusterServiceVersion
	sub = operatorsv1alpha1.Subscription
)

// recorded is a namespace as OLM leaves it.
type recorded struct {
	*env.Tenant
	// copies is the namespace with the copies of the ClusterServiceVersions.
	copies string
	// made contains all objects that OLM wrote.
	made []client.Object
	// certificates contains the serving certificates, by Deployment.
	certificates map[string]certificate
	// targets are the targets of the OperatorGroup, as OLM records them in the annotations of ClusterServiceVersions.
	targets string
}

// newRecorded creates a namespace that OLM still manages, with an OperatorGroup for this namespace.
func newRecorded(tn *env.Tenant) *recorded {
	tn.T.Helper()
	r := &recorded{Tenant: tn, copies: tn.Other(nil), targets: tn.Namespace}
	for _, ns := range []string{r.Namespace, r.copies} { // the admission policies for ClusterServiceVersions require an OperatorGroup
		r.group(ns, ns)
	}
	return r
}

// group creates an OperatorGroup that is left to OLM. Without targets, it selects all namespaces.
func (r *recorded) group(namespace string, targets ...string) {
	r.T.Helper()
	r.Create(&operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group", Annotations: leftToOLM()},
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: env.AccountName, TargetNamespaces: targets},
	})
}

func leftToOLM() map[string]string { return map[string]string{"remit.dev/managed-by": "olm"} }

func (r *recorded) create(obj client.Object, by client.FieldOwner) {
	r.T.Helper()
	r.Eventually(func(c *assert.CollectT) { // the policies may not have observed the OperatorGroup yet
		copied, _ := obj.DeepCopyObject().(client.Object)
		err := cluster.Client.Create(r.T.Context(), copied, by)
		if assert.NoError(c, client.IgnoreAlreadyExists(err)) {
			obj.SetUID(copied.GetUID())
		}
	})
	require.NoError(r.T, cluster.Client.Get(r.T.Context(), client.ObjectKeyFromObject(obj), obj))
	r.made = append(r.made, obj)
}

// writeStatus writes the status. Remit may have written one in the first moment, if it observed the object before the OperatorGroup.
func (r *recorded) writeStatus(obj client.Object, by client.FieldOwner) {
	r.T.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(r.T, err)
	patch, err := json.Marshal(map[string]any{"status": content["status"]})
	require.NoError(r.T, err)
	require.NoError(r.T, cluster.Client.Status().Patch(r.T.Context(), obj, client.RawPatch(types.MergePatchType, patch), by))
}

func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}
}

// newCSV returns version 1.0.0 of an operator with one Deployment.
func (r *recorded) newCSV(pkg string) *csv {
	c := &csv{ObjectMeta: r.Meta(pkg + ".v1.0.0")}
	c.Labels = map[string]string{"operators.coreos.com/" + pkg + "." + r.Namespace: ""}
	c.Annotations = map[string]string{"olm.operatorGroup": "group", "olm.operatorNamespace": r.Namespace, "olm.targetNamespaces": r.targets,
		"capabilities": "Basic Install", "operatorframework.io/properties": fmt.Sprintf(`{"properties":[{"type":"olm.package","value":{"packageName":%q,"version":"1.0.0"}}]}`, pkg)}
	c.Spec.DisplayName = pkg
	require.NoError(r.T, c.Spec.Version.UnmarshalJSON([]byte(`"1.0.0"`)))
	for _, mode := range []operatorsv1alpha1.InstallModeType{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		c.Spec.InstallModes = append(c.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: true})
	}
	labels := map[string]string{"app": pkg}
	c.Spec.InstallStrategy.StrategyName = "deployment"
	strategy := &c.Spec.InstallStrategy.StrategySpec
	strategy.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: pkg, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: pkg, Containers: []corev1.Container{{Name: "manager", Image: "images.test/" + pkg + ":1.0.0"}},
		}},
	}}}
	strategy.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: pkg, Rules: rules()}}
	c.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: r.crdName(pkg), Version: "v1", Kind: "Thing"}}
	return c
}

func (r *recorded) crdName(pkg string) string { return "things." + pkg + "." + r.Namespace + ".test" }

// operator creates the 14 objects that OLM leaves for one operator. The edits change its ClusterServiceVersion.
func (r *recorded) operator(pkg, catalog string, edits ...func(*csv)) *csv {
	r.T.Helper()
	s := &sub{ObjectMeta: r.Meta(pkg), Spec: &operatorsv1alpha1.SubscriptionSpec{CatalogSource: catalog, CatalogSourceNamespace: r.Namespace, Package: pkg, Channel: "stable"}}
	s.Labels = map[string]string{"operators.coreos.com/" + pkg + "." + r.Namespace: ""}
	r.create(s, "kubectl-create")
	c := r.newCSV(pkg)
	for _, edit := range edits {
		edit(c)
	}
	r.create(c, byCatalog)
	r.plan(s, c)
	now := metav1.Now()
	c.SetPhase(operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful, "install strategy completed with no errors", &now)
	r.writeStatus(c, byOLM)
	s.Status.State, s.Status.CurrentCSV, s.Status.InstalledCSV, s.Status.LastUpdated = operatorsv1alpha1.SubscriptionStateAtLatest, c.Name, c.Name, now
	r.writeStatus(s, byCatalog)

	r.create(&corev1.ServiceAccount{ObjectMeta: r.owned(c, pkg, true)}, byCatalog)
	role := c.Name + "-" + pkg + "-1a2b3c"
	r.create(&rbacv1.Role{ObjectMeta: r.hashed(c, role), Rules: rules()}, byCatalog)
	r.create(&rbacv1.RoleBinding{ObjectMeta: r.hashed(c, role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: pkg, Namespace: r.Namespace}}}, byCatalog)
	r.create(&rbacv1.ClusterRole{ObjectMeta: r.clusterMeta(c, "metrics-reader-"+pkg+"-"+r.Namespace)}, byCatalog)
	r.create(&corev1.Service{ObjectMeta: r.owned(c, pkg+"-metrics", true), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": pkg}, Ports: []corev1.ServicePort{{Name: "https", Port: 8443}}}}, byCatalog)
	r.create(&corev1.ConfigMap{ObjectMeta: r.owned(c, pkg+"-config", true), Data: map[string]string{"a": "b"}}, byCatalog)
	r.create(&corev1.Secret{ObjectMeta: r.owned(c, pkg+"-token", true), StringData: map[string]string{"a": "b"}}, byCatalog)
	for i := range c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		r.create(r.deployment(c, i), byOLM)
	}
	r.create(r.crd(c, pkg), byCatalog)
	r.copyOf(c)
	return c
}

// plan creates the completed InstallPlan of a Subscription.
func (r *recorded) plan(s *sub, c *csv) {
	r.T.Helper()
	ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: r.Meta("install-" + s.Name), Spec: operatorsv1alpha1.InstallPlanSpec{
		Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, ClusterServiceVersionNames: []string{c.Name}, Generation: 1}}
	ip.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "Subscription", Name: s.Name, UID: s.UID}}
	r.create(ip, byCatalog)
	ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
	ip.Status.CatalogSources = []string{s.Spec.CatalogSource}
	r.writeStatus(ip, byCatalog)
}

// copyOf creates a copy of a ClusterServiceVersion, as OLM does in target namespaces.
func (r *recorded) copyOf(c *csv) {
	r.T.Helper()
	copied := c.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Namespace: r.copies, Name: c.Name, Labels: map[string]string{"olm.copiedFrom": r.Namespace, "olm.managed": "true"}}
	r.create(copied, byOLM)
}

func (r *recorded) labels(c *csv) map[string]string {
	pkg, _, _ := strings.Cut(c.Name, ".v")
	return map[string]string{"olm.managed": "true", "olm.owner": c.Name, "olm.owner.namespace": r.Namespace, "olm.owner.kind": "ClusterServiceVersion",
		"operators.coreos.com/" + pkg + "." + r.Namespace: ""}
}

// owned returns the metadata of an object in the namespace that OLM creates for a ClusterServiceVersion.
func (r *recorded) owned(c *csv, name string, bare bool) metav1.ObjectMeta {
	m := r.Meta(name)
	m.Labels = r.labels(c)
	if bare { // objects from the steps of a plan do not have these labels
		for _, k := range []string{"olm.owner", "olm.owner.namespace", "olm.owner.kind"} {
			delete(m.Labels, k)
		}
	}
	no := false
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: c.Name, UID: c.UID, BlockOwnerDeletion: &no, Controller: &no}}
	return m
}

func (r *recorded) hashed(c *csv, name string) metav1.ObjectMeta {
	m := r.owned(c, name, false)
	m.Labels["olm.permissions.hash"] = "1a2b3c"
	return m
}

// clusterMeta returns the metadata of a cluster-scoped object.
func (r *recorded) clusterMeta(c *csv, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: r.labels(c)}
}

// deployment returns a Deployment of a ClusterServiceVersion. If it serves webhooks or APIs, its certificate is mounted.
func (r *recorded) deployment(c *csv, index int) *appsv1.Deployment {
	spec := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[index]
	d := &appsv1.Deployment{ObjectMeta: r.owned(c, spec.Name, false), Spec: *spec.Spec.DeepCopy()}
	d.Labels["olm.deployment-spec-hash"] = "9y8x7w"
	limit := int32(1)
	d.Spec.RevisionHistoryLimit = &limit
	d.Spec.Template.Annotations = map[string]string{}
	for k, v := range c.Annotations {
		d.Spec.Template.Annotations[k] = v
	}
	d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "OPERATOR_CONDITION_NAME", Value: c.Name})
	if r.certificates[d.Name].hash != "" {
		serving.Replace(&d.Spec.Template, d.Name, r.certificates[d.Name].hash)
	}
	return d
}

func (r *recorded) crd(c *csv, pkg string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: r.crdName(pkg)}}
	crd.Labels = map[string]string{"olm.managed": "true", "operators.coreos.com/" + pkg + "." + r.Namespace: ""}
	crd.Annotations = map[string]string{"operatorframework.io/installed-alongside-0123456789abcdef": r.Namespace + "/" + c.Name}
	_, group, _ := strings.Cut(crd.Name, ".")
	yes := true
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}}}}}
	return crd
}
