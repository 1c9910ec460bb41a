package bundle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// csvText is a minimal CSV with permissions for a ServiceAccount "op".
const csvText = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.v1}
spec:
  install:
    strategy: deployment
    spec:
      deployments: [{name: op, spec: {template: {spec: {serviceAccountName: op}}}}]
      permissions:
      - serviceAccountName: op
        rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`

// parse parses the manifests together with csvText.
func parse(manifests ...string) (*bundle.Bundle, error) {
	raw := [][]byte{[]byte(csvText)}
	for _, m := range manifests {
		raw = append(raw, []byte(m))
	}
	return parseAll(raw)
}

// parseAll parses manifests whose file names are unknown.
func parseAll(manifests [][]byte) (*bundle.Bundle, error) {
	return bundle.ParseContent(context.Background(), &catalog.Content{Manifests: manifests})
}

func object(kind, rest string) string {
	return "apiVersion: v1\nkind: " + kind + "\n" + rest
}

func TestParseRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, row := range []struct{ name, manifest, want string }{
		{"a second document", object("ConfigMap", "metadata: {name: a}\n---\nkind: Secret\n"), "Secret: metadata.name is missing"},
		{"a document after the end marker", object("ConfigMap", "metadata: {name: a}\n... \nkind: Secret\n"), "Secret: metadata.name is missing"},
		{"invalid YAML", "a: [", "invalid YAML"},
		{"an object without a kind", "apiVersion: v1\nmetadata: {name: a}", "not an object with a kind"},
		{"a kind that is a number", "kind: 1\nmetadata: {name: a}", "not an object with a kind"},
		{"a CSV without an apiVersion", "{kind: ClusterServiceVersion, metadata: {name: a}}", `ClusterServiceVersion "a": missing APIVersion`},
		{"a quantity that takes hours to parse", `{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a"}, "spec": {"cpu": "\u0031e-2147483647"}}`,
			`ClusterServiceVersion "a": the value that begins with "1e-2147483647" is not accepted as a quantity`},
		{"a version that takes much memory", `{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a"}, "spec": {"version": "1.0.0-` + strings.Repeat("a.", 1000) + `a"}}`,
			`ClusterServiceVersion "a": the version has 2007 bytes; at most 256 are allowed`},
		{"a list", object("ConfigMapList", "items: []"), "each manifest must be one object"},
		{"nesting that is too deep", object("ConfigMap", "metadata: {name: a}\ndata: "+deep(300)), "nested more than 200 levels deep"},
		{"an alias bomb of nodes", "a: &a [x,x]\n" + laughs(40), "expand to more than"},
		{"an alias bomb of bytes", "s: &s " + strings.Repeat("x", 1<<20) + "\nl: [" + strings.Repeat("*s,", 100_000) + "]", "expand to more than"},
		{"too large as text", object("ConfigMap", "metadata: {name: a}\n"+strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 1<<16)), "at most 4194304 are allowed"},
		{"too large as JSON", object("ConfigMap", "metadata: {name: a}\ndata: {a: "+strings.Repeat("x", 3<<19)+"}"), "bytes long as JSON"},
		{"an unsupported kind", object("Pod", "metadata: {name: a}"), `manifest /v1, Kind=Pod "a": bundles cannot contain`},
		{"a supported kind in another group", "apiVersion: evil.io/v1\nkind: Secret\nmetadata: {name: a}", "bundles cannot contain"},
		{"generateName", object("ConfigMap", "metadata: {generateName: a-}"), "generateName is not allowed"},
		{"no name", object("ConfigMap", "data: {}"), "metadata.name is missing or not a string"},
		{"a Role without a name", "kind: Role", "metadata.name is missing or not a string"},
		{"a name that is a number", object("ConfigMap", "metadata: {name: 1}"), "metadata.name is missing or not a string"},
		{"a name that is a path", object("ConfigMap", "metadata: {name: ../x}"), `metadata.name "../x"`},
		{"a long Role name", "kind: Role\nmetadata: {name: " + strings.Repeat("a", 254) + "}", `aaa": must be no more than 253 characters`},
		{"a Role name that is a path", "kind: Role\nmetadata: {name: ../x}", `metadata.name "../x"`},
		{"a Role name that is the parent directory", "kind: Role\nmetadata: {name: ..}", `metadata.name ".."`},
		{"a Role name with an escape", "kind: Role\nmetadata: {name: a%2fb}", `metadata.name "a%2fb"`},
		{"a Role name with a second document", "kind: Role\nmetadata: {name: \"a\\n---\\nkind: Role\"}", `metadata.name "a\n---\nkind: Role"`},
		{"a Role name that is a command", "kind: Role\nmetadata: {name: $(id)}", `metadata.name "$(id)"`},
		{"a Role name with a space", "kind: Role\nmetadata: {name: a b}", `metadata.name "a b"`},
		{"a Role name that is a flag", "kind: Role\nmetadata: {name: --all}", `metadata.name "--all"`},
		{"a Role name with a line separator", "kind: Role\nmetadata: {name: \"a\\u2028b\"}", `metadata.name "a\u2028b"`},
		{"uppercase letters in a name", object("ConfigMap", "metadata: {name: A}"), `metadata.name "A"`},
		{"a namespace that is a YAML boolean", object("ConfigMap", "metadata: {name: a, namespace: n}"), `ConfigMap "a": .metadata.namespace`},
		{"a field name with line breaks", `{kind: Role, metadata: {name: a}, rules: [{"a\n.metadata.labels: field not declared in schema\nb": 1}]}`, `control characters: "a\n.metadata`},
		{"a data key with a control character", object("ConfigMap", "metadata: {name: a}\ndata: {\"a\\eb\": c}"), `control characters: "a\x1bb"`},
		{"a namespace with a second document", object("ConfigMap", `metadata: {name: a, namespace: "n\n---\nb"}`), `ConfigMap "a": metadata.namespace "n\n---\nb"`},
		{"a kind with a second document", `{kind: "Role\n---\nb", metadata: {name: a}}`, `kind "Role\n---\nb" contains white space`},
		{"an API version with a second document", `{kind: Role, apiVersion: "v1\n---\nb", metadata: {name: a}}`, `apiVersion "v1\n---\nb" contains white space`},
		{"a label key with a comment", object("ConfigMap", `metadata: {name: a, labels: {"# kind: c": d}}`), `ConfigMap "a": metadata.labels: key "# kind: c": name part must`},
		{"an annotation key with a comment", object("ConfigMap", `metadata: {name: a, annotations: {"# kind: c": d}}`), `ConfigMap "a": metadata.annotations: key "# kind: c": name part must`},
		{"a subject with a second document", `{kind: RoleBinding, metadata: {name: a}, roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: "u\n---\nb"}]}`,
			`RoleBinding "a": subjects[0].name "u\n---\nb" contains white space`},
		{"a CustomResourceDefinition whose kind has a second document", `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {names: {kind: "K\n---\nb"}}}`,
			`CustomResourceDefinition "a": spec.names.kind "K\n---\nb" contains white space`},
		{"labels that are not strings", object("ConfigMap", "metadata: {name: a, labels: {b: true, c: d}}"), `ConfigMap "a": .metadata.labels`},
		{"annotations that are not a map", object("ConfigMap", "metadata: {name: a, annotations: [b]}"), `ConfigMap "a": .metadata.annotations`},
		{"metadata that is not a map", object("ConfigMap", "metadata: a"), "metadata.name is missing or not a string"},
		{"a second CSV", strings.Replace(csvText, "op.v1", "op.v2", 1), `two ClusterServiceVersions: "op.v1" and "op.v2"`},
		{"a different second copy of the CSV", csvText + "  description: other\n", "two different manifests for ClusterServiceVersion.operators.coreos.com op.v1; the other is manifest 1"},
		{"a Role with a rule that the API server refuses", "kind: Role\nmetadata: {name: a}\nrules: [{apiGroups: ['']}]", `Role "a": rule`},
		{"a Role with URLs", "kind: Role\nmetadata: {name: a}\nrules: [{nonResourceURLs: [/a], verbs: [get]}]", `Role "a": rule`},
		{"a ClusterRole that aggregates without selectors", "kind: ClusterRole\nmetadata: {name: a}\naggregationRule: {}", "no clusterRoleSelectors"},
		{"a RoleBinding without roleRef", "kind: RoleBinding\nmetadata: {name: a}", `RoleBinding "a": roleRef has unsupported kind ""`},
		{"a ClusterRoleBinding to a Role", "kind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: Role, name: r}", `ClusterRoleBinding "a": roleRef has unsupported kind "Role"`},
		{"a ClusterRoleBinding whose subject has no namespace", "kind: ClusterRoleBinding\nmetadata: {name: a}\nroleRef: {kind: ClusterRole, name: r}\nsubjects: [{kind: ServiceAccount, name: x}]", `"x" has no namespace`},
		{"a CustomResourceDefinition with too many versions", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n" +
			"spec: {versions: [" + strings.Repeat("{name: v1}, ", bundle.MaxCRDVersions+1) + "]}", "has 51 versions; at most 50"},
		{"a ClusterRole whose rules are not a list", "kind: ClusterRole\nmetadata: {name: a}\nrules: a", `ClusterRole "a": `},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := parse(row.manifest)
			require.ErrorContains(t, err, row.want)
		})
	}
}

// What OLM v0 installs is installed: a manifest may repeat keys, contain several documents or not be an object.
func TestReadsWhatIsNotOneValidObjectWithAWarning(t *testing.T) {
	names := func(b *bundle.Bundle) (out []string) {
		for _, obj := range b.Objects {
			out = append(out, obj.GetKind()+" "+obj.GetName())
		}
		return out
	}
	const notAnObject = "omitted, because it is not a Kubernetes object: it has neither apiVersion nor kind"
	for _, row := range []struct {
		name, manifest string
		want           []string
		warning        string
	}{
		{"a repeated key", object("Secret", "metadata: {name: a}\nkind: ConfigMap"), []string{"ConfigMap a"}, `line 4: key "kind" is repeated; its last value is used`},
		{"a repeated key in a later document", "# x\n---\n# y\n" + object("ConfigMap", "metadata: {name: a}\n---\n") + object("Secret", "metadata:\n  name: a\n  name: b"),
			[]string{"ConfigMap a", "Secret b"}, `line 12: key "name" is repeated; its last value is used`},
		{"several documents", object("ConfigMap", "metadata: {name: a}\n...\n") + object("Secret", "metadata: {name: b}\n--- # c\n") + object("Service", "metadata: {name: c}"),
			[]string{"ConfigMap a", "Secret b", "Service c"}, "line 4: the manifest contains 3 objects, and all of them are used"},
		{"a description of a package", "packageName: a\nchannels: [{name: stable}]", nil, "line 1: " + notAnObject},
		{"text", "hello", nil, "line 1: " + notAnObject},
		{"a list", "# a\n---\n- kind: ConfigMap", nil, "line 1: " + notAnObject},
		{"an empty manifest", "", nil, "line 1: omitted, because it is empty"},
		{"comments only", "# nothing\n---\n# here\n", nil, "line 1: omitted, because it is empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, err := bundle.ParseContent(context.Background(), &catalog.Content{Manifests: [][]byte{[]byte(csvText), []byte(row.manifest)}, Names: []string{"csv.yaml", "x.yaml"}})
			require.NoError(t, err)
			require.ElementsMatch(t, row.want, names(b))
			require.Contains(t, b.Warnings, `manifest "x.yaml": `+row.warning)
		})
	}
}

// The documents of one manifest count like manifests, and so does what aliases add to them.
func TestLimitsApplyToTheDocumentsOfAManifest(t *testing.T) {
	_, err := parse(strings.Repeat(object("ConfigMap", "metadata: {name: a}\n---\n"), bundle.MaxManifests))
	require.ErrorContains(t, err, "bundle has more than 1000 objects")

	var expanding strings.Builder
	for i := range 2 + 32 {
		fmt.Fprintf(&expanding, "%sdata: {x: &x %s, y: [%s]}\n---\n", object("ConfigMap", fmt.Sprintf("metadata: {name: a%d}\n", i)),
			strings.Repeat("x", 1000), strings.TrimSuffix(strings.Repeat("*x,", bundle.MaxManifestBytes/1000-100), ","))
	}
	require.Less(t, expanding.Len(), bundle.MaxManifestText)
	_, err = parse(expanding.String())
	var costly *bundle.CostError
	require.ErrorAs(t, err, &costly)
	require.ErrorContains(t, err, "the objects of the bundle would need about 52 MiB")
}

func TestLimitsTheNumberOfWarnings(t *testing.T) {
	b, err := parse(slices.Repeat([]string{object("ConfigMap", "metadata: {name: a}\n"+strings.Repeat("kind: ConfigMap\n", 100))}, 50)...)
	require.NoError(t, err)
	require.Len(t, b.Warnings, catalog.MaxContentWarnings)
	require.Equal(t, "manifest 2: and 80 more warnings about this manifest", b.Warnings[20])
}

// laughs returns YAML with n levels of aliases, each of which doubles the expanded size.
func laughs(n int) string {
	var b strings.Builder
	last := "a"
	for i := range n {
		fmt.Fprintf(&b, "b%d: &b%d [*%s, *%s]\n", i, i, last, last)
		last = fmt.Sprint("b", i)
	}
	return b.String()
}

func TestParseRefusesWholeBundles(t *testing.T) {
	many := make([][]byte, bundle.MaxManifests+1)
	_, err := parseAll(many)
	require.ErrorContains(t, err, "bundle has 1001 manifests")

	_, err = parseAll(nil)
	require.ErrorContains(t, err, "bundle has no ClusterServiceVersion")
	_, err = parseAll([][]byte{[]byte(object("ConfigMap", "metadata: {name: a}"))})
	require.ErrorContains(t, err, "bundle has no ClusterServiceVersion")

	var large [][]byte
	for i := range 4 {
		comment := "#" + strings.Repeat(" x", 2<<20-100) + "\n"
		large = append(large, []byte(comment+object("ConfigMap", fmt.Sprintf("metadata: {name: a%d}", i))))
	}
	_, err = parseAll(large)
	require.ErrorContains(t, err, "bytes of manifests; at most 12582912 are allowed")

	_, err = parseAll([][]byte{[]byte("apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\nspec: {install: 1}")})
	require.ErrorContains(t, err, `ClusterServiceVersion "a": `)
}

// A misspelled field would otherwise be dropped, and the rule would apply to objects with any name.
func TestUnknownFieldsInPermissionsAreRefused(t *testing.T) {
	const rules = `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`
	misspelled := strings.Replace(csvText, rules, `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [secrets], verbs: [get], resourceName: [mine]}]`, 1)
	cluster := strings.Replace(csvText, "permissions:", "clusterPermissions:", 1)
	for _, row := range []struct{ csv, manifest, want string }{
		{misspelled, "", `ClusterServiceVersion "op.v1": unknown fields, possibly misspelled fields that restrict permissions: spec.install.spec.permissions[0].rules[1].resourceName`},
		{strings.Replace(cluster, rules, `rules: [{apiGroups: [""], resources: [pods], verbs: [get], ResourceNames: [mine]}]`, 1), "", "spec.install.spec.clusterPermissions[0].rules[0].ResourceNames"},
		{strings.Replace(csvText, "serviceAccountName: op\n        rules", "serviceAccountName: op\n        namespace: one\n        rules", 1), "", "spec.install.spec.permissions[0].namespace"},
		{csvText, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\n" + strings.Replace(rules, "verbs", "resourceName: [mine], verbs", 1),
			`Role "r": unknown fields, possibly misspelled fields that restrict permissions: rules[0].resourceName`},
		{csvText, "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}\n" +
			"subjects: [{kind: ServiceAccount, name: op, nameSpace: mine}]", "subjects[0].nameSpace"},
	} {
		manifests := [][]byte{[]byte(row.csv)}
		if row.manifest != "" {
			manifests = append(manifests, []byte(row.manifest))
		}
		_, err := parseAll(manifests)
		require.ErrorContains(t, err, row.want)
	}
	elsewhere := strings.Replace(csvText, "strategy: deployment", "strategy: deployment\n    unknown: x", 1)
	_, err := parseAll([][]byte{[]byte(elsewhere)})
	require.NoError(t, err)
}

func TestRefusesIconsThatAreNotImages(t *testing.T) {
	for _, row := range []struct{ icon, want string }{
		{`mediatype: image/png, base64data: iVBORw0KGgo=`, ""},
		{`mediatype: image/svg+xml, base64data: "PHN2\n Zy8+"`, ""},
		{`mediatype: "", base64data: ""`, ""},
		{`mediatype: image/png`, ""},
		{`mediatype: text/html, base64data: PHA+`, `spec.icon[0].mediatype "text/html" is not an image media type`},
		{`mediatype: text/html`, `mediatype "text/html"`},
		{`base64data: PHA+`, `mediatype "" is not`},
		{`mediatype: 'image/png" onload="x()', base64data: PHA+`, "is not an image media type"},
		{`mediatype: "image/png\n", base64data: PHA+`, "is not an image media type"},
	} {
		_, err := parseAll([][]byte{[]byte(csvText + "  icon: [{" + row.icon + "}]\n")})
		if row.want == "" {
			require.NoError(t, err, row.icon)
		} else {
			require.ErrorContains(t, err, row.want)
		}
	}
}

func TestOmitsIconsThatAreNotBase64(t *testing.T) {
	b, err := parseAll([][]byte{[]byte(csvText + `  icon: [{mediatype: image/png, base64data: '"><script>'}, {mediatype: image/png, base64data: iVBORw0KGgo=}]` + "\n")})
	require.NoError(t, err)
	require.Equal(t, []operatorsv1alpha1.Icon{{MediaType: "image/png", Data: "iVBORw0KGgo="}}, b.CSV.Spec.Icon)
	require.Equal(t, []string{"omitted spec.icon[0] of ClusterServiceVersion " + b.CSV.Name + ": its base64data is not valid base64"}, b.Warnings)
}

func TestOmitsSamplesOfTheBundlesOwnKinds(t *testing.T) {
	crd := func(kind string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x.own.example.com}\nspec: {group: own.example.com, names: {kind: " + kind + "}}"
	}
	sample := func(apiVersion, kind string) string {
		return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: sample}"
	}
	for _, row := range []struct{ name, kind, sample, wrong string }{
		{"a Service", "Service", sample("own.example.com/v1", "Service"), ""},
		{"a Secret", "Secret", sample("own.example.com/v1", "Secret"), ""},
		{"a Role", "Role", sample("own.example.com/v1", "Role"), ""},
		{"in another group", "Service", sample("other.example.com/v1", "Service"), "bundles cannot contain objects of this kind"},
		{"another kind in the group", "Role", sample("own.example.com/v1", "Service"), "bundles cannot contain objects of this kind"},
		{"a kind whose name is not that of a Kubernetes kind", "Thing", sample("own.example.com/v1", "Thing"), "bundles cannot contain objects of this kind"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b, err := parseAll([][]byte{[]byte(row.sample), []byte(csvText), []byte(crd(row.kind))})
			if row.wrong != "" {
				require.ErrorContains(t, err, row.wrong)
				return
			}
			require.NoError(t, err)
			require.Len(t, b.Objects, 1)
			require.Equal(t, []string{"omitted " + row.kind + ` "sample" of own.example.com/v1: the bundle itself defines this kind, so the object is only a sample`}, b.Warnings)
		})
	}
}

func TestAnUnsupportedKindIsATypedError(t *testing.T) {
	_, err := parse(object("Pod", "metadata: {name: a}"))
	var unsupported *bundle.UnsupportedKindError
	require.ErrorAs(t, err, &unsupported)
	require.Equal(t, "Pod", unsupported.GVK.Kind)
	require.Equal(t, "a", unsupported.Name)
}

func TestParseAcceptsUnusualFormsOfOneDocument(t *testing.T) {
	for name, manifest := range map[string]string{
		"leading and trailing separators": "---\n# a\n" + object("ConfigMap", "metadata: {name: a}") + "\n---\n",
		"an end marker":                   object("ConfigMap", "metadata: {name: a}") + "\n...\n# nothing\n",
		"JSON":                            `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`,
		"no apiVersion":                   "kind: ConfigMap\nmetadata: {name: a}",
		"modest aliases":                  object("ConfigMap", "metadata: &m {name: a}\ndata: {<<: *m}"),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := parse(manifest)
			require.NoError(t, err)
			require.Len(t, b.Objects, 1)
			require.Equal(t, "v1", b.Objects[0].GetAPIVersion())
			require.Equal(t, "a", b.Objects[0].GetName())
		})
	}
}

func TestParsesManifestsOfAnyLength(t *testing.T) {
	for _, length := range []int{4095, 4096, 8192} {
		text := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"x","annotations":{"a":""}}}`
		text = strings.Replace(text, `"a":""`, `"a":"`+strings.Repeat("x", length-len(text))+`"`, 1)
		require.Len(t, text, length)
		_, err := parseAll([][]byte{[]byte(text)})
		require.NoError(t, err, length)
	}
}

func TestKeepsOnlyTheAuthorsMetadata(t *testing.T) {
	b, err := parse(object("ConfigMap", `
metadata:
  name: a
  namespace: ns
  uid: 1-2
  resourceVersion: "7"
  generation: 3
  creationTimestamp: null
  deletionTimestamp: "2026-01-01T00:00:00Z"
  selfLink: /x
  finalizers: [a.io/f]
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]
  managedFields: [{manager: remit}]
  labels:
    mine: "yes"
    nothing: null
    `+names.LabelManaged+`: "true"
    `+names.LabelOwner+`: other
    `+names.LabelOwnerKind+`: ClusterServiceVersion
    `+names.LabelOwnerNamespace+`: other
    `+names.LabelLineage+`: other
    `+names.LabelCopiedFrom+`: other
    `+names.LabelPermissionsHash+`: other
    `+names.LabelExtensionKind+`: ClusterExtension
    `+names.LabelExtensionName+`: other
    `+names.LabelComponentPrefix+`pkg.other: ""
  annotations:
    mine: "yes"
    `+names.AnnotationOperatorGroup+`: other
    `+names.AnnotationOperatorNamespace+`: other
    `+names.AnnotationTargetNamespaces+`: ""
    `+names.AnnotationInstalledAlongsidePrefix+`x: other/op
    `+names.AnnotationPlan+`: "[]"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
data: {k: v}
status: {phase: Done}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"},
		"metadata": map[string]any{
			"name": "a", "namespace": "ns",
			"labels":      map[string]any{"mine": "yes", "nothing": ""},
			"annotations": map[string]any{"mine": "yes"},
		},
	}, b.Objects[0].Object)
}

func TestStripsTheCSVAndSetsItsVersion(t *testing.T) {
	text := strings.Replace(csvText, "operators.coreos.com/v1alpha1", "invented/v7\nstatus: {phase: Succeeded}", 1)
	b, err := parseAll([][]byte{[]byte(strings.Replace(text, "{name: op.v1}", "{name: op.v1, uid: u, labels: {olm.copiedFrom: x}}", 1))})
	require.NoError(t, err)
	require.Equal(t, "operators.coreos.com/v1alpha1", b.CSV.APIVersion)
	require.Equal(t, metav1.ObjectMeta{Name: "op.v1"}, b.CSV.ObjectMeta)
	require.Empty(t, b.CSV.Status.Phase)
}

func TestObjectsAreInTheOrderOfApplication(t *testing.T) {
	b, err := parse(
		"kind: PodDisruptionBudget\nmetadata: {name: z}",
		"kind: ClusterRoleBinding\nmetadata: {name: 'sys:B'}\nroleRef: {kind: ClusterRole, name: r}",
		"kind: Role\nmetadata: {name: r}",
		object("Secret", "metadata: {name: s}"),
		object("ConfigMap", "metadata: {name: c}"),
		object("ServiceAccount", "metadata: {name: a}"),
		"kind: CustomResourceDefinition\nmetadata: {name: crd}",
	)
	require.NoError(t, err)
	var kinds []string
	for _, obj := range b.Objects {
		kinds = append(kinds, obj.GetKind())
	}
	require.Equal(t, []string{"CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "Role",
		"ClusterRoleBinding", "PodDisruptionBudget"}, kinds)
}

func TestSecretsOfABundle(t *testing.T) {
	token := func(account string) string {
		return object("Secret", "metadata: {name: s, annotations: {kubernetes.io/service-account.name: "+account+"}}\ntype: kubernetes.io/service-account-token")
	}
	typed := func(text string) string { return object("Secret", "metadata: {name: s}\ntype: "+text) }
	const refused = "is not allowed in a bundle"
	for _, row := range []struct {
		name, manifest, want string
	}{
		{"no type", object("Secret", "metadata: {name: s}"), ""},
		{"opaque", typed("Opaque"), ""},
		{"TLS", typed("kubernetes.io/tls"), ""},
		{"docker", typed("kubernetes.io/dockerconfigjson"), ""},
		{"a token of a ServiceAccount in the CSV", token("op"), ""},
		{"a token of a ServiceAccount in a manifest", token("made"), ""},
		{"a token of another ServiceAccount", token("boss"), refused},
		{"a token of the default ServiceAccount", token("default"), refused},
		{"a token without a ServiceAccount", typed("kubernetes.io/service-account-token"), refused},
		{"a bootstrap token", typed("bootstrap.kubernetes.io/token"), refused},
		{"an unknown type", typed("evil.io/x"), refused},
		{"a type that is not a string", typed("[a]"), `Secret "s": `},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := parse(row.manifest, object("ServiceAccount", "metadata: {name: made}"), object("ServiceAccount", "metadata: {name: default}"))
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}

// FuzzParse verifies that ParseContent terminates for any input, and that its result contains only metadata that an
// author can set, is within the limits, and is unchanged when it is parsed again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(csvText))
	f.Add([]byte(object("ConfigMap", "metadata: {name: a, labels: {x: y}, uid: u}\ndata: {a: b}")))
	f.Add([]byte(object("Secret", "metadata: {name: a}\ntype: kubernetes.io/service-account-token")))
	f.Add([]byte("kind: Role\nmetadata: {name: 'a:b'}\nrules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"))
	f.Add([]byte("a: &a [*a]\n---\n...\n"))
	f.Add([]byte(`{"kind":"List","items":[1]}`))
	f.Add([]byte("--- #\n{}: {? a}\n"))
	seeds, _ := filepath.Glob("../../test/operators/sample/bundle/manifests/*")
	for _, file := range seeds {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := parseAll([][]byte{raw, []byte(csvText)})
		if err != nil {
			return
		}
		for _, obj := range b.Objects {
			require.NotEmpty(t, obj.GetName())
			require.False(t, strings.ContainsAny(obj.GetName(), "/%"))
			metadata, ok := obj.Object["metadata"].(map[string]any)
			require.True(t, ok)
			for field := range metadata {
				require.Contains(t, []string{"name", "namespace", "labels", "annotations"}, field)
			}
		}
		_ = bundle.ValidateCSV(b.CSV)
		_ = bundle.Permissions(b.CSV)
		again := [][]byte{encode(t, b.CSV)}
		for _, obj := range b.Objects {
			again = append(again, encode(t, obj.Object))
		}
		second, err := parseAll(again)
		require.NoError(t, err)
		require.Empty(t, second.Warnings, "the warnings describe what the first reading changed")
		b.Warnings, second.Warnings = nil, nil
		b.Cost, second.Cost = 0, 0 // that of the text
		require.Equal(t, b, second)
	})
}

func encode(t *testing.T, obj any) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(obj))
	return out.Bytes()
}
