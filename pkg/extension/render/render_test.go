package render_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// operator is a CSV with a Deployment "op" and permissions. Tests insert further parts of its spec at the end.
const operator = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.v1.0.0, annotations: {capabilities: Full, olm.targetNamespaces: wrong}}
spec:
  installModes: %s
  install:
    strategy: deployment
    spec:
      deployments:
      - name: op
        label: {team: blue}
        spec:
          replicas: 2
          selector: {matchLabels: {app: op}}
          template:
            metadata: {labels: {app: op}, annotations: {own: "1"}}
            spec:
              serviceAccountName: op
              containers:
              - {name: manager, image: op:1, volumeMounts: [{name: cert, mountPath: /tmp/k8s-webhook-server/serving-certs}]}
              volumes: [{name: cert, secret: {secretName: webhook-server-cert}}]
      permissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}
      - {serviceAccountName: default, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
      clusterPermissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}
`

const (
	webhooks = `
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: v.op.example.com, deploymentName: op, admissionReviewVersions: [v1], sideEffects: None,
     failurePolicy: Fail, rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [things], operations: [CREATE]}]}
  - {type: MutatingAdmissionWebhook, generateName: m.op.example.com, deploymentName: op, containerPort: 9443, targetPort: 9000, webhookPath: /m,
     admissionReviewVersions: [v1], sideEffects: None, rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [things], operations: [CREATE]}]}
`
	conversion = `
  - {type: ConversionWebhook, generateName: c.op.example.com, deploymentName: op, conversionCRDs: [things.example.com], admissionReviewVersions: [v1]}
`
	owns = `
  customresourcedefinitions: {owned: [{name: things.example.com, kind: Thing, version: v1}]}
`
	apis = `
  apiservicedefinitions: {owned: [{group: api.example.com, version: v1, kind: Other, name: others, deploymentName: op, containerPort: 5443}]}
`
	crd = `
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec: {group: example.com, names: {kind: Thing, plural: things}}
`
)

// modes returns a list of install modes in which only the named modes are supported.
func modes(supported ...string) string {
	var out []string
	for _, m := range []string{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		out = append(out, fmt.Sprintf("{type: %s, supported: %v}", m, slices.Contains(supported, m)))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// csvFor returns a CSV that supports an install mode, or several that are separated by spaces.
func csvFor(supported string, parts ...string) string {
	return fmt.Sprintf(operator, modes(strings.Fields(supported)...)) + strings.Join(parts, "")
}

func parse(t *testing.T, manifests ...string) *bundle.Bundle {
	t.Helper()
	content := &catalog.Content{}
	for _, m := range manifests {
		content.Manifests = append(content.Manifests, []byte(m))
	}
	b, err := bundle.ParseContent(t.Context(), content)
	require.NoError(t, err)
	return b
}

func input(t *testing.T, manifests ...string) render.Input {
	t.Helper()
	return render.Input{Bundle: parse(t, manifests...), Owner: ownerutil.Owner{
		Lineage: ownerutil.Lineage{Package: "op", Namespace: "ops", Extension: "my-op"}, UID: "uid-1",
	}}
}

func rendered(t *testing.T, in render.Input) *render.Rendered {
	t.Helper()
	out, err := render.Render(in)
	require.NoError(t, err)
	return out
}

// list returns lines like "<phase> <kind> <namespace>/<name>". Hashes in names are replaced by "#".
func list(r *render.Rendered) []string {
	var out []string
	for _, o := range r.Objects {
		name := o.GetName()
		if hash := o.GetLabels()["olm.permissions.hash"]; hash != "" {
			name = strings.Replace(name, hash, "#", 1)
		}
		out = append(out, fmt.Sprintf("%s %s %s/%s", o.Phase, o.GetKind(), o.GetNamespace(), name))
	}
	return out
}

// object returns the only object of a kind, decoded.
func object[T any](t *testing.T, r *render.Rendered, kind string) (obj *unstructured.Unstructured, typed T) {
	t.Helper()
	for _, o := range r.Objects {
		if o.GetKind() == kind {
			require.Nil(t, obj, "several objects of kind %s", kind)
			obj = o.Unstructured
		}
	}
	require.NotNil(t, obj, kind)
	require.NoError(t, apply.Decode(obj, &typed))
	return obj, typed
}

func TestObjectsForAllNamespaces(t *testing.T) {
	r := rendered(t, input(t, csvFor("AllNamespaces SingleNamespace", owns), crd,
		"kind: ConfigMap\nmetadata: {name: cm, namespace: elsewhere}",
		"kind: PriorityClass\nmetadata: {name: pc}\nvalue: 1", "kind: NetworkPolicy\nmetadata: {name: np}",
		"apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: sm}"))
	require.Equal(t, []string{""}, r.Targets)
	require.Equal(t, []string{
		"policies NetworkPolicy ops/np", "policies PriorityClass /pc",
		"identity ServiceAccount ops/op",
		"configuration ConfigMap ops/cm",
		"crds CustomResourceDefinition /things.example.com",
		"roles ClusterRole /my-op-#", "roles ClusterRole /my-op-#",
		"bindings ClusterRoleBinding /my-op-#", "bindings ClusterRoleBinding /my-op-#",
		"workloads Deployment ops/op",
		"publish ServiceMonitor ops/sm",
	}, list(r))
	require.Equal(t, []render.Phase{"policies", "identity", "configuration", "crds", "roles", "bindings", "workloads", "publish"}, r.Phases())
	for _, o := range r.Objects {
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "olm.operatorframework.io/v1", Kind: "ClusterExtension", Name: "my-op", UID: "uid-1",
			Controller: new(false), BlockOwnerDeletion: new(false)}}, o.GetOwnerReferences())
		labels := o.GetLabels()
		require.Equal(t, "ClusterExtension", labels["olm.operatorframework.io/owner-kind"])
		require.Equal(t, "my-op", labels["olm.operatorframework.io/owner-name"])
		require.NotContains(t, labels, "olm.owner")
		require.NotContains(t, labels, "olm.managed")
		require.NotEmpty(t, labels["remit.dev/lineage"])
	}
}

func TestPermissionsFollowTheTargets(t *testing.T) {
	read := func(verbs []string, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	get := func(resource string) rbacv1.PolicyRule { return read([]string{"get"}, resource) }
	for _, row := range []struct {
		name, supported, watch string
		want                   map[string][]rbacv1.PolicyRule
	}{
		{"promoted for all namespaces", "AllNamespaces", "", map[string][]rbacv1.PolicyRule{
			"/op":      {get("nodes"), get("configmaps"), read([]string{"get", "list", "watch"}, "namespaces")},
			"/default": {get("pods"), read([]string{"get", "list", "watch"}, "namespaces")},
		}},
		{"in the install namespace", "OwnNamespace", "ops", map[string][]rbacv1.PolicyRule{
			"/op": {get("nodes")}, "ops/op": {get("configmaps")}, "ops/default": {get("pods")},
		}},
		{"in the watched and the install namespace", "SingleNamespace", "other", map[string][]rbacv1.PolicyRule{
			"/op": {get("nodes")}, "ops/op": {get("configmaps")}, "ops/default": {get("pods")}, "other/op": {get("configmaps")}, "other/default": {get("pods")},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := input(t, csvFor(row.supported))
			in.Config.WatchNamespace = row.watch
			r := rendered(t, in)
			rules := map[string][]rbacv1.PolicyRule{}
			for _, o := range r.In(render.Roles) {
				role := rbacv1.ClusterRole{}
				require.NoError(t, apply.Decode(o.Unstructured, &role))
				rules[o.GetNamespace()+"/"+o.GetName()] = role.Rules
			}
			got := map[string][]rbacv1.PolicyRule{}
			for _, o := range r.In(render.Bindings) {
				binding := rbacv1.ClusterRoleBinding{}
				require.NoError(t, apply.Decode(o.Unstructured, &binding))
				require.Equal(t, "ops", binding.Subjects[0].Namespace)
				got[o.GetNamespace()+"/"+binding.Subjects[0].Name] = rules[o.GetNamespace()+"/"+binding.RoleRef.Name]
			}
			require.Equal(t, row.want, got)
			annotations := r.In(render.Workloads)[0].Object["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)["annotations"]
			require.Equal(t, map[string]any{"own": "1", "capabilities": "Full", "olm.operatorNamespace": "ops", "olm.targetNamespaces": row.watch}, annotations)
		})
	}
}

// Permissions that are granted for objects by name remain valid after an upgrade that does not change the rules.
func TestNamesDoNotDependOnTheVersion(t *testing.T) {
	next := strings.Replace(csvFor("OwnNamespace"), "op.v1.0.0", "op.v2.0.0", 1)
	one, two := input(t, csvFor("OwnNamespace")), input(t, next)
	one.Config.WatchNamespace, two.Config.WatchNamespace = "ops", "ops"
	names := func(r *render.Rendered) []string {
		var out []string
		for _, o := range r.Objects {
			out = append(out, o.GetKind()+" "+o.GetName())
		}
		return out
	}
	require.Equal(t, names(rendered(t, one)), names(rendered(t, two)))
	two.Owner.Extension = "other"
	require.NotEqual(t, names(rendered(t, one)), names(rendered(t, two)))
}

func TestDeployment(t *testing.T) {
	in := input(t, csvFor("AllNamespaces"))
	var err error
	in.Config, err = render.ParseConfig([]byte(`{"deploymentConfig": {"nodeSelector": {"disk": "ssd"}, "env": [{"name": "A", "value": "b"}],
		"resources": {"limits": {"cpu": "1"}}, "annotations": {"note": "x"}}}`))
	require.NoError(t, err)
	obj, d := object[appsv1.Deployment](t, rendered(t, in), "Deployment")
	require.Equal(t, "blue", obj.GetLabels()["team"])
	require.Equal(t, "x", obj.GetAnnotations()["note"])
	require.EqualValues(t, 1, *d.Spec.RevisionHistoryLimit)
	pod := d.Spec.Template
	require.Equal(t, map[string]string{"disk": "ssd"}, pod.Spec.NodeSelector)
	require.Equal(t, []corev1.EnvVar{{Name: "A", Value: "b"}}, pod.Spec.Containers[0].Env, "without OPERATOR_CONDITION_NAME")
	require.Equal(t, "1", pod.Spec.Containers[0].Resources.Limits.Cpu().String())
	require.Equal(t, "webhook-server-cert", pod.Spec.Volumes[0].Secret.SecretName, "nothing is mounted for an operator without webhooks")
}

func TestWebhooksAndAPIs(t *testing.T) {
	in := input(t, csvFor("AllNamespaces", webhooks, conversion, owns, apis), crd)
	in.Spared = []string{"remit"}
	r := rendered(t, in)
	require.Equal(t, []string{
		"identity ServiceAccount ops/op",
		"configuration Secret ops/op-service-cert",
		"crds CustomResourceDefinition /things.example.com",
		"roles ClusterRole /my-op-#", "roles ClusterRole /my-op-#",
	}, list(r)[:5])
	require.Equal(t, []string{
		"infrastructure Service ops/op-service",
		"workloads Deployment ops/op",
		"publish APIService /v1.api.example.com",
		"admission MutatingWebhookConfiguration /m.op.example.com",
		"admission ValidatingWebhookConfiguration /v.op.example.com",
	}, list(r)[len(r.Objects)-5:])
	for _, o := range r.Objects {
		require.Equal(t, slices.Contains([]string{"op-service", "op-service-cert"}, o.GetName()), o.Certified, o.GetName())
		require.Len(t, o.GetOwnerReferences(), 1)
	}

	_, service := object[corev1.Service](t, r, "Service")
	var ports []string
	for _, p := range service.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d:%s", p.Port, p.TargetPort.String()))
	}
	require.Equal(t, []string{"443:443", "5443:5443", "9443:9000"}, ports)
	require.Equal(t, map[string]string{"app": "op"}, service.Spec.Selector)

	_, mutating := object[admissionregistrationv1.MutatingWebhookConfiguration](t, r, "MutatingWebhookConfiguration")
	require.Equal(t, "op-service", mutating.Webhooks[0].ClientConfig.Service.Name)
	require.Equal(t, "/m", *mutating.Webhooks[0].ClientConfig.Service.Path)
	require.Equal(t, metav1.LabelSelectorOpNotIn, mutating.Webhooks[0].NamespaceSelector.MatchExpressions[0].Operator)
	require.Contains(t, mutating.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values, "remit")

	_, d := object[appsv1.Deployment](t, r, "Deployment")
	require.Equal(t, []corev1.VolumeMount{{Name: "apiservice-cert", MountPath: "/apiserver.local.config/certificates"},
		{Name: "webhook-cert", MountPath: "/tmp/k8s-webhook-server/serving-certs"}}, d.Spec.Template.Spec.Containers[0].VolumeMounts, "clashing mounts are replaced")
	var secrets []string
	for _, v := range d.Spec.Template.Spec.Volumes {
		secrets = append(secrets, v.Name+" "+v.Secret.SecretName)
	}
	require.Equal(t, []string{"apiservice-cert op-service-cert", "webhook-cert op-service-cert"}, secrets)

	var kubeSystem []string
	for _, o := range r.In(render.Bindings) {
		if o.GetNamespace() == metav1.NamespaceSystem {
			kubeSystem = append(kubeSystem, o.GetKind())
		}
	}
	require.Equal(t, []string{"RoleBinding"}, kubeSystem, "API servers read the front proxy's CA")
}

func TestARenderedServiceReplacesThatOfTheBundle(t *testing.T) {
	r := rendered(t, input(t, csvFor("AllNamespaces", webhooks), "kind: Service\nmetadata: {name: op-service}\nspec: {selector: {a: b}}"))
	_, service := object[corev1.Service](t, r, "Service")
	require.Equal(t, map[string]string{"app": "op"}, service.Spec.Selector)
	require.Equal(t, []string{"omitted Service ops/op-service of the bundle: Remit creates this object for the bundle's webhooks and APIs"}, r.Warnings)
}

func TestWebhooksSelectTheWatchedNamespace(t *testing.T) {
	in := input(t, csvFor("OwnNamespace SingleNamespace", webhooks))
	in.Config.WatchNamespace = "other"
	_, validating := object[admissionregistrationv1.ValidatingWebhookConfiguration](t, rendered(t, in), "ValidatingWebhookConfiguration")
	require.Equal(t, []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"other"}}},
		validating.Webhooks[0].NamespaceSelector.MatchExpressions)
}

func TestCertificatesOfRemit(t *testing.T) {
	in := input(t, csvFor("AllNamespaces", webhooks, conversion, owns, apis), crd)
	bundleOf := func(r *render.Rendered, kind string, path ...string) string {
		obj, _ := object[map[string]any](t, r, kind)
		text, _, err := unstructured.NestedString(obj.Object, path...)
		require.NoError(t, err)
		return text
	}
	require.Empty(t, bundleOf(rendered(t, in), "APIService", "spec", "caBundle"), "none is issued yet")

	set := cert.Set{Current: cert.Pair{CA: []byte("ca"), Certificate: []byte("certificate")}}
	in.Certificates = func(deployment string) cert.Set {
		require.Equal(t, "op", deployment)
		return set
	}
	r := rendered(t, in)
	const ca = "Y2E="
	require.Equal(t, ca, bundleOf(r, "APIService", "spec", "caBundle"))
	require.Equal(t, ca, bundleOf(r, "CustomResourceDefinition", "spec", "conversion", "webhook", "clientConfig", "caBundle"))
	_, validating := object[admissionregistrationv1.ValidatingWebhookConfiguration](t, r, "ValidatingWebhookConfiguration")
	require.Equal(t, "ca", string(validating.Webhooks[0].ClientConfig.CABundle))
	secret, _ := object[corev1.Secret](t, r, "Secret")
	require.NotContains(t, fmt.Sprint(secret.Object["data"]), "Y2VydGlmaWNhdGU=", "only hooks.Installer writes certificates")
}

func TestCertificatesOfTools(t *testing.T) {
	in := input(t, csvFor("AllNamespaces", webhooks, conversion, owns, apis), crd)
	in.Tool = serving.CertManager("ops")
	r := rendered(t, in)
	require.Subset(t, list(r), []string{
		"infrastructure Certificate ops/op-service-cert", "infrastructure Issuer ops/op-service-cert", "infrastructure Service ops/op-service",
	})
	require.NotContains(t, list(r), "configuration Secret ops/op-service-cert")
	require.Equal(t, []*unstructured.Unstructured{apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), "ops", "op-service-cert")}, r.Hooks.IssuedSecrets())
	certificate, _ := object[map[string]any](t, r, "Certificate")
	require.Equal(t, map[string]any{
		"secretName": "op-service-cert", "duration": "17520h0m0s", "renewBefore": "24h0m0s", "usages": []any{"server auth"},
		"dnsNames":  []any{"op-service.ops", "op-service.ops.svc", "op-service.ops.svc.cluster.local"},
		"issuerRef": map[string]any{"kind": "Issuer", "name": "op-service-cert"},
	}, certificate.Object["spec"])
	_, d := object[appsv1.Deployment](t, r, "Deployment")
	require.Equal(t, "op-service-cert", d.Spec.Template.Spec.Volumes[0].Secret.SecretName, "clashing mounts are replaced")
	for _, kind := range []string{"APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition"} {
		obj, _ := object[map[string]any](t, r, kind)
		require.Equal(t, "ops/op-service-cert", obj.GetAnnotations()["cert-manager.io/inject-ca-from"], kind)
	}

	in.Tool = serving.ServiceCA()
	r = rendered(t, in)
	require.Empty(t, r.Hooks.IssuedSecrets(), "service-ca does not overwrite Secrets that others created")
	service, _ := object[corev1.Service](t, r, "Service")
	require.Equal(t, map[string]string{"service.beta.openshift.io/serving-cert-secret-name": "op-service-cert"}, service.GetAnnotations())
	configuration, _ := object[map[string]any](t, r, "ValidatingWebhookConfiguration")
	require.Equal(t, "true", configuration.GetAnnotations()["service.beta.openshift.io/inject-cabundle"])
}

// The author's own volume mounts are kept only if the author has chosen the tool that issues the certificates.
func TestTheToolOfTheAuthorTakesPrecedence(t *testing.T) {
	text := strings.Replace(csvFor("AllNamespaces", webhooks), "annotations: {", "annotations: {cert-manager.io/inject-ca-from: ops/mine, ", 1)
	in := input(t, text)
	in.Tool = serving.ServiceCA()
	r := rendered(t, in)
	configuration, _ := object[map[string]any](t, r, "ValidatingWebhookConfiguration")
	require.Equal(t, map[string]string{"cert-manager.io/inject-ca-from": "ops/mine"}, configuration.GetAnnotations())
	_, d := object[appsv1.Deployment](t, r, "Deployment")
	require.Contains(t, d.Spec.Template.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "cert", MountPath: "/tmp/k8s-webhook-server/serving-certs"})

	_, err := render.Render(input(t, strings.Replace(text, "ops/mine", "kube-system/other", 1)))
	require.EqualError(t, err, `bundle "op.v1.0.0": webhooks and APIs cannot be served: annotation cert-manager.io/inject-ca-from: `+
		`"kube-system/other" is not in namespace "ops"`)
}

func TestInvalidBundlesAreRejected(t *testing.T) {
	for _, row := range []struct {
		name, want string
		edit       func(string) string
		parts      []string
		manifests  []string
	}{
		{name: "only MultiNamespace", edit: func(s string) string { return strings.Replace(s, modes("AllNamespaces"), modes("MultiNamespace"), 1) },
			want: "the bundle must support one of the install modes AllNamespaces, SingleNamespace and OwnNamespace; it supports: MultiNamespace"},
		{name: "an owned CRD is missing", parts: []string{owns},
			want: `bundle "op.v1.0.0": the bundle does not contain all CustomResourceDefinitions that it owns; missing: things.example.com`},
		{name: "two deployments with one name", edit: func(s string) string {
			return strings.Replace(s, "      permissions:", "      - name: op\n      permissions:", 1)
		}, want: `bundle "op.v1.0.0": two deployments are named "op"`},
		{name: "a webhook of a missing deployment", parts: []string{strings.Replace(webhooks, "deploymentName: op,", "deploymentName: none,", 1)},
			want: `bundle "op.v1.0.0": deployment "none" is not part of the install strategy: webhook "v.op.example.com"`},
		{name: "two webhooks with one name", parts: []string{strings.ReplaceAll(webhooks, "m.op", "v.op")},
			want: `bundle "op.v1.0.0": CSV contains repeated WebhookDescription name: "v.op.example.com"`},
		{name: "a webhook for all groups", parts: []string{strings.Replace(webhooks, "apiGroups: [example.com]", `apiGroups: ["*"]`, 1)},
			want: `bundle "op.v1.0.0": webhook rules cannot include all groups: webhook "v.op.example.com"`},
		{name: "a webhook for ClusterExtensions", parts: []string{strings.Replace(webhooks, "apiGroups: [example.com]", `apiGroups: [olm.operatorframework.io]`, 1)},
			want: `bundle "op.v1.0.0": webhook rules cannot include the OLM group: webhook "v.op.example.com"`},
		{name: "a webhook for webhooks", parts: []string{strings.Replace(webhooks, "apiGroups: [example.com], apiVersions: [v1], resources: [things]",
			`apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], resources: ["*"]`, 1)},
			want: `bundle "op.v1.0.0": webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources: webhook "v.op.example.com"`},
		{name: "a conversion in several modes", edit: func(s string) string {
			return strings.Replace(s, modes("AllNamespaces"), modes("AllNamespaces", "OwnNamespace"), 1)
		}, parts: []string{webhooks, conversion, owns}, manifests: []string{crd},
			want: `bundle "op.v1.0.0": a conversion webhook needs a CSV that supports only the install mode AllNamespaces: webhook "c.op.example.com"`},
		{name: "a conversion of a CRD that preserves unknown fields", parts: []string{webhooks, conversion, owns},
			manifests: []string{strings.Replace(crd, "spec: {", "spec: {preserveUnknownFields: true, ", 1)},
			want: `bundle "op.v1.0.0": CustomResourceDefinition "things.example.com" preserves unknown fields (spec.preserveUnknownFields), ` +
				`so it cannot have a conversion webhook`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := csvFor("AllNamespaces", row.parts...)
			if row.edit != nil {
				text = row.edit(text)
			}
			_, err := render.Render(input(t, append([]string{text}, row.manifests...)...))
			require.EqualError(t, err, row.want)
		})
	}
	in := input(t, csvFor("AllNamespaces"))
	in.Owner.Package = "Not_Valid"
	_, err := render.Render(in)
	require.EqualError(t, err, `bundle "op.v1.0.0": package name "Not_Valid" is not valid`)
}

func TestRendersTheSameEachTime(t *testing.T) {
	manifests := []string{csvFor("AllNamespaces", webhooks, conversion, owns, apis), crd, "kind: ConfigMap\nmetadata: {name: b}", "kind: ConfigMap\nmetadata: {name: a}"}
	encode := func(in render.Input) string {
		text, err := json.Marshal(rendered(t, in).Objects)
		require.NoError(t, err)
		return string(text)
	}
	want := encode(input(t, manifests...))
	for range 10 {
		slices.Reverse(manifests)
		require.Equal(t, want, encode(input(t, manifests...)))
	}
}
