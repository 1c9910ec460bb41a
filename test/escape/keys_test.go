package escape

import (
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	feeding = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
 metadata: {name: escape-feeds, labels: {rbac.authorization.k8s.io/aggregate-to-admin: "true", team: kept}},
 rules: [{apiGroups: [escape.example.com], resources: [feeds], verbs: [get]}]}`

	// instructions contains labels and annotations that instruct other programs in the cluster to act with their own
	// permissions, and in addition a harmless label and a harmless annotation.
	instructions = `labels: {olm.catalogSource: catalog, pod-security.kubernetes.io/enforce: privileged, app.kubernetes.io/name: kept},
 annotations: {cert-manager.io/inject-ca-from: kube-system/crown, service.beta.openshift.io/inject-cabundle: "true",
  service.beta.openshift.io/serving-cert-secret-name: stolen, example.com/team: kept}`

	// appArmor is a Pod annotation that selects an AppArmor profile on the node.
	appArmor = "container.apparmor.security.beta.kubernetes.io/" + forge.Deployment
)

// withoutInstructions asserts that, of the labels and annotations in instructions, the object has only the harmless ones.
func (s *scene) withoutInstructions(name string, obj client.Object) {
	s.T.Helper()
	require.NoError(s.T, s.Get(name, obj))
	s.omits(obj.GetLabels(), "olm.catalogSource", "pod-security.kubernetes.io/enforce")
	s.omits(obj.GetAnnotations(), "cert-manager.io/inject-ca-from", "service.beta.openshift.io/inject-cabundle", "service.beta.openshift.io/serving-cert-secret-name")
	require.Equal(s.T, "kept", obj.GetLabels()["app.kubernetes.io/name"])
	require.Equal(s.T, "kept", obj.GetAnnotations()["example.com/team"])
}

func (s *scene) omits(all map[string]string, keys ...string) {
	s.T.Helper()
	for _, key := range keys {
		require.NotContains(s.T, all, key)
	}
}

// leftOut asserts that a message names the labels and annotations that were omitted from an object.
func (s *scene) leftOut(message, object string, keys ...string) {
	s.T.Helper()
	require.Contains(s.T, message, object+": omitted labels and annotations that control other programs in the cluster: "+strings.Join(keys, ", "))
}

// installed waits until the plan is complete and returns the message of its Installed condition.
func (s *scene) installed() string {
	s.T.Helper()
	s.Complete()
	return s.Plan(s.T).Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Message
}

func keys() []row {
	feeds := p3()
	feeds.cluster = append(feeds.cluster, rule("escape.example.com", "feeds", "get"))
	return []row{
		{number: "124", title: "a ClusterRole that aggregates the account's permissions to admin", holds: feeds, play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.Group == rbacv1.GroupName && c.Name == "escape-feeds" && c.How == "created"
			})
			s.install(bundleOf(csv(), feeding))
			s.Complete()
			s.Succeeded(probeCSV)
			made, admin := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "escape-feeds"}, made))
			require.Equal(s.T, "kept", made.Labels["team"])
			s.omits(made.Labels, "rbac.authorization.k8s.io/aggregate-to-admin")
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "admin"}, admin))
			require.False(s.T, slices.ContainsFunc(admin.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "feeds") }))
			s.allow(nil) // nothing that the install created outside the namespace may remain
			s.uninstall()
			s.Eventually(func(c *assert.CollectT) {
				err := cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(made), &rbacv1.ClusterRole{})
				assert.True(c, apierrors.IsNotFound(err), "%v", err)
			})
		}},
		{number: "124a", title: "instructions for other programs on a CRD, a Service and Pods", holds: p2(), play: func(s *scene) {
			const group = "orders.escape.example.com"
			s.allow(func(c oracle.Change) bool {
				return c.How == "created" && (c.Name == "gadgets."+group || c.Name == "v1."+group)
			})
			marked := func(name string) string { return "name: " + name + ", " + instructions }
			crd := replaced(crdOf(group, "gadgets", "Gadget", "", servedVersion("v1", true, anything)), "name: gadgets."+group, marked("gadgets."+group))
			pods := map[string]any{"app": forge.Deployment, "olm.catalogSource": "catalog"}
			s.install(bundleOf(owning("gadgets."+group, "v1", "Gadget").PodMetadata(pods, "labels"), crd,
				`{apiVersion: v1, kind: Service, metadata: {`+marked("ordering")+`}, spec: {ports: [{port: 443}]}}`,
				`{apiVersion: v1, kind: ConfigMap, metadata: {`+marked("ordering")+`}}`))
			message := s.installed()
			for _, object := range []string{"Service " + s.Namespace + "/ordering", "ConfigMap " + s.Namespace + "/ordering", "CustomResourceDefinition gadgets." + group} {
				s.leftOut(message, object, "cert-manager.io/inject-ca-from", "olm.catalogSource", "pod-security.kubernetes.io/enforce",
					"service.beta.openshift.io/inject-cabundle", "service.beta.openshift.io/serving-cert-secret-name")
			}
			s.leftOut(message, "Deployment "+s.Namespace+"/"+forge.Deployment, "olm.catalogSource")
			s.Succeeded(probeCSV)
			s.withoutInstructions("ordering", &corev1.Service{})
			s.withoutInstructions("ordering", &corev1.ConfigMap{})
			made := &unstructured.Unstructured{}
			made.SetAPIVersion("apiextensions.k8s.io/v1")
			made.SetKind("CustomResourceDefinition")
			s.withoutInstructions("gadgets."+group, made)
			d := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, d))
			s.omits(d.Spec.Template.Labels, "olm.catalogSource")
		}},
		{number: "145", title: "instructions for other programs in a Subscription's config", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.publish(bundleOf(csv()))
			s.subscribe(func(spec *operatorsv1alpha1.SubscriptionSpec) {
				spec.Config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{appArmor: "unconfined", "example.com/team": "kept"}}
			})
			s.leftOut(s.installed(), "Deployment "+s.Namespace+"/"+forge.Deployment, appArmor)
			s.leftOut(s.csvSays(succeeded).Status.Message, "Deployment "+s.Namespace+"/"+forge.Deployment, appArmor)
			s.withoutInstruction(appArmor)
		}},
		{number: "145-direct", title: "instructions for other programs on Pods, in a tenant's own CSV", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			annotations := map[string]any{appArmor: "unconfined", "example.com/team": "kept"}
			require.NoError(s.T, s.apply(s.mallory(), csv().PodMetadata(annotations, "annotations").Object))
			s.leftOut(s.csvSays(succeeded).Status.Message, "Deployment "+s.Namespace+"/"+forge.Deployment, appArmor)
			s.withoutInstruction(appArmor)
		}},
	}
}

// withoutInstruction asserts that the operator's Deployment does not have the annotation key, and that its pod template has
// only the harmless annotation.
func (s *scene) withoutInstruction(key string) {
	s.T.Helper()
	d := &appsv1.Deployment{}
	require.NoError(s.T, s.Get(forge.Deployment, d))
	s.omits(d.Annotations, key)
	s.omits(d.Spec.Template.Annotations, key)
	require.Equal(s.T, "kept", d.Spec.Template.Annotations["example.com/team"])
}
