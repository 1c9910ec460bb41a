package escape

import (
	"encoding/base64"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
)

// broken returns a row whose bundle must be refused because one of its manifests is invalid.
func broken(number, title, manifest string, words ...string) row {
	return row{number: number, title: title, holds: p1(), play: func(s *scene) {
		s.install(bundleOf(csv(), manifest))
		s.refused(words...)
	}}
}

// odd returns a row whose bundle OLM v0 installs although one of its manifests is not exactly one object. The plan warns, and
// the account writes exactly these ConfigMaps, with these values of the key a.
func odd(number, title, manifest, warning string, want map[string]string) row {
	return row{number: number, title: title, holds: p1(), play: func(s *scene) {
		s.install(bundleOf(csv(), manifest))
		s.Succeeded(probeCSV)
		require.Contains(s.T, s.Plan(s.T).Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Message, warning)
		got := map[string]string{}
		for _, name := range []string{"broken", "hidden"} {
			cm := &corev1.ConfigMap{}
			if err := s.Get(name, cm); !apierrors.IsNotFound(err) {
				require.NoError(s.T, err)
				got[name] = cm.Data["a"]
			}
		}
		if want == nil {
			want = map[string]string{}
		}
		require.Equal(s.T, want, got)
	}}
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// brokenIcon returns a row whose bundle must be refused because the CSV's icon is invalid.
func brokenIcon(number, title, mediaType, data string, words ...string) row {
	return row{number: number, title: title, holds: p1(), play: func(s *scene) {
		icon := map[string]any{"mediatype": mediaType, "base64data": data}
		s.install(bundleOf(csv().Set([]any{icon}, "spec", "icon")))
		s.refused(words...)
	}}
}

// brokenLarge is like broken, but for a catalog that does not fit into a ConfigMap.
func brokenLarge(number, title string, manifest func() string, words ...string) row {
	return row{number: number, title: title, holds: p1(), play: refusedDirectory(words...),
		directory: func() string { return forge.Catalog(bundleOf(csv(), manifest())) }}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: broken\n"

// laughs returns YAML with aliases that expand to 9^depth elements.
func laughs(depth int) string {
	out := "data:\n  a0: &a0 lol\n"
	for n := range depth {
		alias := fmt.Sprintf("*a%d", n)
		out += fmt.Sprintf("  a%d: &a%d [%s]\n", n+1, n+1, strings.TrimSuffix(strings.Repeat(alias+", ", 9), ", "))
	}
	return out
}

func manyKeys(n int) string {
	var out strings.Builder
	out.WriteString(configMap + "data:\n")
	for i := range n {
		fmt.Fprintf(&out, "  k%d: v\n", i)
	}
	return out.String()
}

func malformed() []row {
	rows := []row{
		brokenIcon("94", "an icon that is an HTML page with a script", "text/html", base64Of("<script>alert(1)</script>"), "mediatype"),
		brokenIcon("94a", "an icon whose media type breaks out of an HTML attribute", `image/png" onerror="alert(1)`, base64Of("x"), "mediatype"),
		{number: "94b", title: "an icon whose data breaks out of an HTML attribute", holds: p1(), play: func(s *scene) {
			icon := map[string]any{"mediatype": "image/png", "base64data": `"><script>alert(1)</script>`}
			s.install(bundleOf(csv().Set([]any{icon}, "spec", "icon")))
			s.Succeeded(probeCSV) // without the icon
			require.Empty(s.T, s.CSV(s.T, probeCSV).Spec.Icon)
		}},
		{number: "94c", title: "a package icon that is an HTML page with a script", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.publishText(strings.Replace(forge.Catalog(bundleOf(csv())), `"schema":"olm.package"`,
				`"schema":"olm.package","icon":{"mediatype":"text/html","base64data":"`+base64Of("<script>alert(1)</script>")+`"}`, 1))
			s.subscribe()
			s.Succeeded(probeCSV) // the package's icon is neither stored nor shown
			require.Empty(s.T, s.CSV(s.T, probeCSV).Spec.Icon)
		}},
		{number: "109", title: "a CSV of 1.6 MB, with a description of 1.5 MB", holds: p1(), directory: func() string {
			return forge.Catalog(bundleOf(csv().Set(strings.Repeat("d", 1_600_000), "spec", "description")))
		}, play: refusedDirectory("bytes")},
		{number: "109a", title: "a CSV with a description of 1 MB", holds: p1(), directory: func() string {
			return forge.Catalog(bundleOf(csv().Set(strings.Repeat("d", 1_000_000), "spec", "description")))
		}, play: func(s *scene) {
			s.installDirectory()
			s.Succeeded(probeCSV) // the CSV does not exceed the size limit for objects
		}},
		broken("110", "an alias bomb", configMap+laughs(9), "YAML"),
		brokenLarge("110a", "nesting that is 10,000 levels deep", func() string {
			return configMap + "x: " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
		}, "manifest"),
		brokenLarge("110b", "900,000 keys", func() string { return manyKeys(900_000) }, "bytes"),
		odd("110c", "duplicate keys", configMap+"data: {a: one}\ndata: {a: two}\n", "is repeated; its last value is used", map[string]string{"broken": "two"}),
		odd("110d", "two documents with the same object", configMap+"---\n"+configMap, "contains 2 objects, and all of them are used", map[string]string{"broken": ""}),
		odd("110e", "a second document after a document end marker", configMap+"...\n"+replaced(configMap, "broken", "hidden"),
			"contains 2 objects, and all of them are used", map[string]string{"broken": "", "hidden": ""}),
		broken("110f", "tabs", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: broken\n", "YAML"),
		broken("110g", "a list of objects", `{apiVersion: v1, kind: List, items: []}`, "manifest"),
		{number: "110k", title: "a value that no ConfigMap can have", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv(), configMap+"data: [a]\n"))
			s.planSays("failed to create typed patch object", ".data: expected map")
			require.Equal(s.T, operatorsv1alpha1.InstallPlanPhaseFailed, s.Plan(s.T).Status.Phase, "the plan must not be retried")
			s.nothingWritten()
		}},
		{number: "110l", title: "more unknown fields than Remit removes", holds: p1(), play: func(s *scene) {
			var fields strings.Builder
			for i := range 60 {
				fmt.Fprintf(&fields, "unknown%d: x\n", i)
			}
			s.install(bundleOf(csv(), configMap+fields.String()))
			s.planSays("field not declared in schema")
			require.Equal(s.T, operatorsv1alpha1.InstallPlanPhaseFailed, s.Plan(s.T).Status.Phase)
			s.nothingWritten()
		}},
		odd("110h", "not an object", `"text"`, "omitted, because it is not a Kubernetes object", nil),
		odd("110i", "nothing", "# nothing\n", "omitted, because it is empty", nil),
		{number: "110j", title: "an alias bomb as the catalog", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.publishText("schema: olm.package\nname: probe\ndefaultChannel: stable\n" + laughs(9))
			s.subscribe()
			s.catalogSays("alias")
			s.refused("its content is not available")
		}},
		{number: "111", title: "a second ClusterServiceVersion", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv(), forge.NewCSV("hidden.v1.0.0").String()))
			s.refused("two ClusterServiceVersions")
		}},
		{number: "111a", title: "a ClusterServiceVersion whose name differs from its name in the catalog", holds: p1(), play: func(s *scene) {
			b := bundleOf(csv())
			b.Name = "something-else.v1.0.0"
			s.install(b)
			s.refused("is named")
		}},
		broken("116", "a name that is not UTF-8", replaced(configMap, "broken", "bro\xffken"), "manifest"),
		broken("116a", "a name with a NUL", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bro\u0000ken"}}`, "manifest"),
		broken("116b", "a name with a terminal color sequence", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bro\u001b[31mken"}}`, "manifest"),
		broken("116c", "a kind with a terminal color sequence", `{"apiVersion": "v1", "kind": "Config\u001b[31mMap", "metadata": {"name": "broken"}}`, "manifest"),
		{number: "116d", title: "a package with a terminal color sequence", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.publish(forge.Of("pro\x1b[31mbe", csv()))
			s.subscribe()
			s.catalogSays("control character")
			s.refused("its content is not available")
		}},
		{number: "116e", title: "a display name with control characters", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv().Set("\x1b[31mProbe\u202e", "spec", "displayName").Permissions(forge.Entry("bad\x1b[31m", readMaps))))
			s.refused("serviceAccountName")
		}},
		broken("118", "a ConfigMap for kube-system", replaced(configMap, "name: broken", "name: broken\n  namespace: kube-system"), "kube-system"),
		{number: "118b", title: "a CSV for kube-system", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv().Set("kube-system", "metadata", "namespace")))
			s.Succeeded(probeCSV)
			require.NoError(s.T, s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{})) // not in kube-system
		}},
		broken("118a", "a namespace that is not a string", replaced(configMap, "name: broken", "name: broken\n  namespace: [kube-system]"), "namespace"),
		broken("119", "a generated name", replaced(configMap, "name: broken", "generateName: broken-"), "generateName"),
		broken("119a", "both a name and a generated name", replaced(configMap, "name: broken", "name: broken\n  generateName: broken-"), "generateName"),
		broken("119b", "a name with path traversal", replaced(configMap, "name: broken", "name: ../../secrets/crown"), "name"),
		broken("119c", "a kind that bundles must not contain", `{apiVersion: v1, kind: Pod, metadata: {name: broken}}`, "cannot contain"),
		broken("119d", "a webhook as a manifest", `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: broken}}`, "cannot contain"),
		broken("119e", "a Namespace as a manifest", `{apiVersion: v1, kind: Namespace, metadata: {name: broken}}`, "cannot contain"),
		broken("119f", "an OperatorGroup as a manifest", `{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: broken}}`, "cannot contain"),
		broken("119g", "labels that are not strings", replaced(configMap, "name: broken", "name: broken\n  labels: {a: [b]}"), "labels"),
		{number: "119h", title: "metadata that only the API server may set", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(csv(), replaced(configMap, "name: broken", `name: broken
  resourceVersion: "1"
  uid: 00000000-0000-0000-0000-000000000000
  selfLink: /api/v1/namespaces/kube-system/configmaps/y
  creationTimestamp: "2001-01-01T00:00:00Z"
  deletionTimestamp: "2001-01-01T00:00:00Z"
  managedFields: [{manager: kubectl, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:data": {}}}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", remit.dev/plan: "[]", kept: "yes"}`)))
			s.Succeeded(probeCSV)
			s.Complete()
			cm := &corev1.ConfigMap{}
			require.NoError(s.T, s.Get("broken", cm))
			require.NotEqual(s.T, "00000000-0000-0000-0000-000000000000", string(cm.UID))
			require.Nil(s.T, cm.DeletionTimestamp)
			require.NotContains(s.T, cm.Annotations, corev1.LastAppliedConfigAnnotation)
			require.NotContains(s.T, cm.Annotations, names.AnnotationPlan)
			require.Equal(s.T, "yes", cm.Annotations["kept"])
		}},
	}
	return rows
}
