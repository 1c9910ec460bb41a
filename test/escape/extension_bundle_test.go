package escape

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	collides  = "already exists and was not created by this install"
	theirsMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {key: theirs}}`
)

// renamedCSV returns a harmless CSV whose objects have different names from those of csv.
func renamedCSV() forge.CSV { return csv().RenameObjects("apart") }

// extensionBundles returns rows in which a bundle of a ClusterExtension, or its status, tries to take over objects of other
// owners or to change objects that Remit depends on.
func extensionBundles() []row {
	return []row{
		{number: "224", title: "a bundle with an object of another ClusterExtension", play: func(s *scene) {
			before := s.victim()
			x := s.extension("thief", bundleOf(renamedCSV(), theirsMap))
			x.install(p0())
			x.refused("ConfigMap "+s.Namespace+"/kept", collides)
			s.settleExtensions()
			x.nothingWritten(x.Since)
			s.same(before...)
			s.absent(&corev1.ServiceAccount{}, "apart")
		}},
		{number: "224a", title: "an object whose labels, annotations and owners are those of another ClusterExtension", play: func(s *scene) {
			victim := s.extension("victim", bundleOf(csv(), keptMap))
			victim.install(p0())
			victim.Installed("1.0.0")
			forged := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			forged.SetName("forged")
			victim.disguise(forged, s.installedObject("v1", "ConfigMap", "kept").GetAnnotations()[proofAnnotation])
			forged.SetFinalizers([]string{"example.com/stay", names.FinalizerExtension})
			text, err := forged.MarshalJSON()
			require.NoError(s.T, err)
			x := s.extension("thief", bundleOf(renamedCSV(), string(text)))
			x.install(p0())
			x.Installed("1.0.0")
			got := s.installedObject("v1", "ConfigMap", "forged")
			require.Empty(s.T, got.GetFinalizers())
			require.Equal(s.T, x.owner().Labels()[names.LabelLineage], got.GetLabels()[names.LabelLineage])
			require.Equal(s.T, x.Name, got.GetLabels()[names.LabelExtensionName])
			require.Len(s.T, got.GetOwnerReferences(), 1)
			require.Equal(s.T, x.Get().UID, got.GetOwnerReferences()[0].UID)
			victim.Remove()
			s.settleExtensions()
			s.same(got)
		}},
		{number: "224b", title: "objects with the labels, the owner, the field manager and a copied proof of a ClusterExtension", play: func(s *scene) {
			donor := s.extension("donor", bundleOf(renamedCSV(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: donated}}`))
			donor.install(p0())
			donor.Installed("1.0.0")
			x := s.extension("own", bundleOf(csv(), keptMap, `{apiVersion: v1, kind: ConfigMap, metadata: {name: copied}}`))
			x.create(x.as(""))
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
			before := []*unstructured.Unstructured{
				s.disguised(x, "kept", ""), s.disguised(x, "copied", s.installedObject("v1", "ConfigMap", "donated").GetAnnotations()[proofAnnotation]),
			}
			x.enroll()
			x.grant(p0())
			x.refused("ConfigMap "+s.Namespace+"/kept "+collides, "no proof that Remit created it", "ConfigMap "+s.Namespace+"/copied "+collides)
			s.settleExtensions()
			x.nothingWritten(x.Since)
			s.same(before...)
		}},
		{number: "224c", title: "a bundle with the CustomResourceDefinition of another tenant", play: func(s *scene) {
			x := s.extension("thief", bundleOf(owning("widgets.acme.io", "v1", "Widget"), widgets("", servedVersion("v1", true, anything))))
			x.install(definesAnything())
			x.refused("CustomResourceDefinition widgets.acme.io", collides)
		}},
		{number: "224d", title: "a stricter schema that probes the values of other tenants' objects", play: func(s *scene) {
			group := s.Namespace + ".escape.test"
			s.allow(func(c oracle.Change) bool { return strings.HasSuffix(c.Name, group) })
			brings := func(c forge.CSV, schema string) *forge.Bundle {
				owned := []any{map[string]any{"name": "widgets." + group, "version": "v1", "kind": "Widget"}}
				return bundleOf(c.Set(owned, "spec", "customresourcedefinitions", "owned"), crdOf(group, "widgets", "Widget", "", servedVersion("v1", true, schema)))
			}
			x := s.extension("own", brings(csv(), strings.Replace(fishing, `, pattern: "^nothing$"`, "", 1)))
			holds := definesAnything()
			holds.cluster = append(holds.cluster, rule(group, "widgets", "list"))
			x.install(holds)
			x.Installed("1.0.0")
			widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "spec": map[string]any{"value": secretValue}}}
			widget.SetNamespace(neighbor)
			widget.SetName(neighborsWidget)
			s.createOutside(widget)
			next := brings(forge.NewCSV(laterCSV).Set("2.0.0", "spec", "version"), fishing)
			next.Version, next.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
			x.upgrade(next)
			x.stuck("updated validation is too restrictive", "1 object(s) would be invalid")
			require.NotContains(s.T, condition(x.Get(), olmv1.TypeProgressing).Message, secretValue) // the oracle checks all other objects
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), widget))
			x.Remove()
		}},
		{number: "225", title: "a forged inventory in the status, before an upgrade that removes objects", play: func(s *scene) {
			others := s.victim()
			x := s.extension("own", bundleOf(renamedCSV(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: dropped}}`))
			x.install(p0())
			x.Installed("1.0.0")
			others = append(others, s.disguised(x, "disguised", s.installedObject("v1", "ConfigMap", "dropped").GetAnnotations()[proofAnnotation]))
			next := forge.Of(probe, forge.NewCSV(laterCSV).Set("2.0.0", "spec", "version").RenameObjects("apart").
				Permissions(forge.Entry("apart", `{apiGroups: [batch], resources: [jobs], verbs: [get]}`)))
			next.Version, next.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
			x.upgrade(next)
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, "jobs")
			x.forgeInventory(append(others, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": accountName}}}))
			s.bind(x.User().Subject(), "jobs", profile{own: []rbacv1.PolicyRule{rule("batch", "jobs", "get")}})
			x.Installed("2.0.0")
			s.Eventually(func(c *assert.CollectT) { assert.True(c, apierrors.IsNotFound(s.Get("dropped", &corev1.ConfigMap{}))) })
			s.settleExtensions()
			s.same(others...)
			require.NoError(s.T, s.Get(accountName, &corev1.ServiceAccount{}))
		}},
		{number: "225a", title: "an upgrade to a version without the CustomResourceDefinition", play: func(s *scene) {
			group := s.Namespace + ".escape.test"
			s.allow(func(c oracle.Change) bool { return strings.HasSuffix(c.Name, group) })
			x := s.extension("own", bundleOf(owning("gadgets."+group, "v1", "Gadget"), crdOf(group, "gadgets", "Gadget", "", servedVersion("v1", true, anything))))
			x.install(definesAnything())
			x.Installed("1.0.0")
			next := forge.Of(probe, forge.NewCSV(laterCSV).Set("2.0.0", "spec", "version"))
			next.Version, next.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
			x.upgrade(next)
			x.Installed("2.0.0")
			s.settleExtensions()
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "gadgets." + group}, &apiextensionsv1.CustomResourceDefinition{}))
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), x.Get()))
			s.Eventually(func(c *assert.CollectT) {
				err := cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "gadgets." + group}, &apiextensionsv1.CustomResourceDefinition{})
				assert.True(c, apierrors.IsNotFound(err), "%v", err)
			})
		}},
		{number: "226", title: "a ClusterExtension with the objects of a ClusterServiceVersion", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), keptMap))
			s.Succeeded(probeCSV)
			s.Complete() // the CSV may succeed before the plan has created the ConfigMap
			before := append(s.standard(), s.installedObject("v1", "ConfigMap", "kept"))
			x := s.extension("own", bundleOf(csv(), keptMap))
			x.install(p0())
			x.refused("Deployment "+s.Namespace+"/"+forge.Deployment, collides)
			s.settleExtensions()
			x.nothingWritten(x.Since)
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), x.Get()))
			s.settleExtensions()
			s.same(before...)
		}},
		{number: "226a", title: "a ClusterServiceVersion with the objects of a ClusterExtension", holds: p0(), play: func(s *scene) {
			before := s.victim()
			s.install(bundleOf(csv(), keptMap))
			s.planSays("Deployment "+s.Namespace+"/"+forge.Deployment, collides)
			s.nothingWritten()
			s.same(before...)
		}},
		{number: "226a-direct", title: "a ClusterServiceVersion with the objects of a ClusterExtension, created by a tenant", holds: p0(), play: func(s *scene) {
			before := s.victim()
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), csv().Object))
			s.csvSays(pending, "ServiceAccount", collides)
			s.removeCSV()
			s.same(before...)
		}},
		{number: "227", title: "bundles with a ClusterExtension, a ClusterCatalog, a policy and a webhook configuration", play: func(s *scene) {
			for i, manifest := range []string{
				`{apiVersion: olm.operatorframework.io/v1, kind: ClusterExtension, metadata: {name: shipped}, spec: {namespace: kube-system, source: {sourceType: Catalog, catalog: {packageName: a}}}}`,
				`{apiVersion: olm.operatorframework.io/v1, kind: ClusterCatalog, metadata: {name: shipped}, spec: {source: {type: Image, image: {ref: example.com/a:b}}}}`,
				`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: remit-extension-author-check}, spec: {policyName: remit-extension-author-check, validationActions: [Audit]}}`,
				`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: shipped}}`,
			} {
				x := s.extension(fmt.Sprintf("own-%d", i), bundleOf(csv(), manifest))
				x.install(allPowerful())
				x.refused("bundles cannot contain objects of this kind")
			}
		}},
		{number: "227-subscribed", title: "a ClusterExtension in a bundle that a Subscription installs", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: olm.operatorframework.io/v1, kind: ClusterExtension, metadata: {name: shipped}}`))
			s.refused("ClusterExtension")
		}},
		{number: "227a", title: "a bundle that enrolls and grants other ClusterExtensions", play: func(s *scene) {
			other := s.extension("other", bundleOf(renamedCSV()))
			other.grant(p0())
			other.create(other.as(""))
			var manifests []string
			for _, obj := range append(scoped.ExtensionEnrollment(other.User(), names.DefaultNamespace, scoped.ImpersonationLegacy),
				scoped.ExtensionAuthorship(other.Name, s.authorSubject())...) {
				manifests = append(manifests, marshal(s, obj))
			}
			x := s.extension("own", bundleOf(csv(), manifests...))
			x.install(p3())
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions, "impersonate", scoped.VerbInstall)
			s.settleExtensions()
			x.nothingWritten(x.Since)
			other.unused(other.User(), other.Since)
		}},
		{number: "227b", title: "a bundle whose bindings refer to the roles of another ClusterExtension's grant and enrollment, installed by a cluster administrator", play: func(s *scene) {
			other := s.extensionNamed(s.Namespace + "-other")
			other.enroll()
			grant := "remit-extension-grant-" + other.Name + ":aaaaaaaa"
			s.createOutside(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: grant}, Rules: []rbacv1.PolicyRule{rule("", "secrets", "get")}})
			for i, role := range []string{grant, "remit-extension-enrollment-" + other.Name} {
				x := s.extension(fmt.Sprintf("own-%d", i), bundleOf(csv(), fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %s-%d},
				 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}, subjects: [{kind: ServiceAccount, namespace: %s, name: operator}]}`, s.Namespace, i, role, s.Namespace)))
				x.install(allPowerful())
				x.refused("may be bound to it")
			}
		}},
		{number: "227c", title: "webhooks on Remit's APIs and on the APIs that limit Remit", play: func(s *scene) {
			for i, group := range []string{"olm.operatorframework.io", "operators.coreos.com", "admissionregistration.k8s.io", "*", rbacv1.GroupName} {
				x := s.extension(fmt.Sprintf("own-%d", i), bundleOf(hooked(csv(), hook("Validating", intercepting(group, "'*'", "CREATE, UPDATE")))))
				x.install(allPowerful())
				x.refused("webhook")
			}
		}},
		{number: "227d", title: "a webhook in all namespaces", play: func(s *scene) {
			s.allow(func(c oracle.Change) bool { return c.How == "created" && s.isForHooks(c) })
			x := s.extension("own", bundleOf(hooked(csv(), harmless())))
			x.enroll()
			x.grant(allPowerful())
			ext := x.as("")
			ext.Spec.Config = nil
			x.create(ext)
			x.Installed("1.0.0")
			list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), list, client.MatchingLabels{names.LabelExtensionName: x.Name}))
			require.Len(s.T, list.Items, 1)
			require.Equal(s.T, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{"kube-node-lease", "kube-public", "kube-system", "remit", "remit-catalogs"},
			}}}, list.Items[0].Webhooks[0].NamespaceSelector)
			x.Remove()
		}},
		{number: "227e", title: "CustomResourceDefinitions and an APIService in the API groups of Remit", play: func(s *scene) {
			for i, group := range []string{"olm.operatorframework.io", "x.operators.coreos.com"} {
				x := s.extension(fmt.Sprintf("own-%d", i), bundleOf(owning("gadgets."+group, "v1", "Gadget"), crdOf(group, "gadgets", "Gadget", "", servedVersion("v1", true, anything))))
				x.install(allPowerful())
				x.refused("is in a protected API group")
			}
			x := s.extension("api", bundleOf(owningAPI(csv(), "olm.operatorframework.io", "v2")))
			x.install(allPowerful())
			x.refused("olm.operatorframework.io")
		}},
		{number: "228", title: "a ClusterExtension that is deleted after its user has lost all permissions and its enrollment", play: func(s *scene) {
			x := s.extension("own", bundleOf(csv(), keptMap))
			enrollment := scoped.ExtensionEnrollment(x.User(), cluster.Home, scoped.ImpersonationConstrained)
			x.install(p0())
			x.Installed("1.0.0")
			require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
			for _, obj := range append(enrollment, &rbacv1.RoleBinding{ObjectMeta: s.Meta(x.Name)}) {
				require.NoError(s.T, cluster.Client.Delete(s.T.Context(), obj))
			}
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
			from := x.Mark()
			x.Remove()
			require.Empty(s.T, x.writes(x.User(), from))
		}},
		{number: "229", title: "a Deployment of a ClusterExtension that runs as a stronger ServiceAccount", boss: true, play: func(s *scene) {
			x := s.extension("own", bundleOf(csv().PodSpec(bossName, "serviceAccountName")))
			x.install(p0())
			x.refused("may not run as ServiceAccount", bossName)
			s.absent(&appsv1.Deployment{}, forge.Deployment)
		}},
		{number: "229a", title: "permissions that the user of the ClusterExtension does not have", play: func(s *scene) {
			x := s.extension("own", bundleOf(csv().ClusterPermissions(forge.Entry(forge.ServiceAccount, all))))
			x.install(p3())
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
			s.settleExtensions()
			x.nothingWritten(x.Since)
		}},
	}
}

// victim installs a ClusterExtension in the scene's namespace and returns its objects with fixed names.
func (s *scene) victim() []*unstructured.Unstructured {
	s.T.Helper()
	victim := s.extension("victim", bundleOf(csv(), keptMap))
	victim.install(p0())
	victim.Installed("1.0.0")
	return append(s.standard(), s.installedObject("v1", "ConfigMap", "kept"))
}

// disguised applies a ConfigMap as if the ClusterExtension had created it.
func (s *scene) disguised(x *extension, name, proof string) *unstructured.Unstructured {
	s.T.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "theirs"}}}
	obj.SetNamespace(s.Namespace)
	obj.SetName(name)
	x.disguise(obj, proof)
	require.NoError(s.T, cluster.Client.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(obj), x.manager()))
	return s.installedObject("v1", "ConfigMap", name)
}

// upgrade publishes bundles in another ClusterCatalog, from which the ClusterExtension then installs.
func (x *extension) upgrade(bundles ...*forge.Bundle) {
	x.T.Helper()
	x.offer(bundles...)
	require.NoError(x.T, x.edit(cluster.Client, func(ext *olmv1.ClusterExtension) { ext.Spec.Source = x.as("").Spec.Source }))
}

// forgeInventory adds objects to the inventory in the status. A user who may write the status is refused, so the objects are added as
// Remit, as if an earlier version without that policy had allowed it.
func (x *extension) forgeInventory(objs []*unstructured.Unstructured) {
	x.T.Helper()
	remit := cluster.As(x.T, "system:serviceaccount:"+cluster.Home+":"+names.ServiceAccountExtension, "system:masters")
	x.scene.Eventually(func(c *assert.CollectT) {
		ext := x.Get()
		for _, obj := range objs {
			gvk := obj.GroupVersionKind()
			ext.Status.Inventory = append(ext.Status.Inventory, olmv1.InventoryObject{Group: gvk.Group, Kind: gvk.Kind, Namespace: x.namespace, Name: obj.GetName()})
		}
		assert.ErrorContains(c, cluster.Client.Status().Update(x.T.Context(), ext.DeepCopy()), "only Remit may change status.namespace, status.install and status.inventory")
		assert.NoError(c, remit.Status().Update(x.T.Context(), ext))
	})
}

// allPowerful returns the profile of a cluster administrator.
func allPowerful() profile {
	return profile{cluster: []rbacv1.PolicyRule{everything(), {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}}
}

// definesAnything returns profile P0 with all permissions on CustomResourceDefinitions.
func definesAnything() profile {
	p := p0()
	p.cluster = []rbacv1.PolicyRule{rule("apiextensions.k8s.io", "customresourcedefinitions", "*")}
	return p
}

// marshal returns an object as JSON, with its kind.
func marshal(s *scene, obj client.Object) string {
	s.T.Helper()
	content, err := toUnstructured(obj)
	require.NoError(s.T, err)
	text, err := content.MarshalJSON()
	require.NoError(s.T, err)
	return string(text)
}
