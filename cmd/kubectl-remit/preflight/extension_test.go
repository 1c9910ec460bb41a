package preflight

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/rbac"
	"github.com/remit-olm/remit/test/env"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// sampleCatalog writes the catalog of the sample operator to a file.
func sampleCatalog(t *testing.T) string {
	t.Helper()
	text, err := env.SampleFBC()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "catalog.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// described returns arguments that describe a ClusterExtension completely, so that no cluster is needed.
func described(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"clusterextension", "demo", "--catalog=" + sampleCatalog(t), "--package=" + sample.Package, "--namespace=demo-system"}, more...)
}

// printedRBAC returns the output of "kubectl remit rbac" with the same arguments.
func printedRBAC(t *testing.T, args []string) string {
	t.Helper()
	cmd := rbac.NewCommand()
	var out, notes bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetArgs(args)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return out.String()
}

func TestTheRBACOfAClusterExtensionIsSufficient(t *testing.T) {
	for name, row := range map[string]struct {
		flags         []string
		user, subject string
	}{
		"its own user":       {nil, "User olm:clusterextension:demo", "- apiGroup: rbac.authorization.k8s.io\n  kind: User\n  name: olm:clusterextension:demo\n"},
		"a ServiceAccount":   {[]string{"--service-account=acct"}, "ServiceAccount demo-system/acct", "- kind: ServiceAccount\n  name: acct\n  namespace: demo-system\n"},
		"a single namespace": {[]string{"--watch-namespace=demo-system"}, "User olm:clusterextension:demo", "  kind: User\n"},
	} {
		t.Run(name, func(t *testing.T) {
			args := described(t, row.flags...)
			all := printedRBAC(t, args)
			require.Contains(t, all, row.subject)
			require.Contains(t, all, "name: remit-extension-enrollment-")
			out, code, err := remit(t, append(args, "--rbac-dir", folder(t, all))...)
			require.NoError(t, err)
			require.Zero(t, code)
			require.Equal(t, row.user+" has all permissions that ClusterExtension demo (bundle \""+sample.CSV+"\", version 0.1.0) needs in namespace \"demo-system\".\n", out)

			less := strings.Replace(all, "  resources:\n  - greetings\n  verbs:\n  - get\n  - list\n", "  resources:\n  - greetings\n  verbs:\n  - get\n", 1)
			require.NotEqual(t, all, less)
			out, code, _ = remit(t, append(args, "--rbac-dir", folder(t, less))...)
			require.Equal(t, cli.CodeMissing, code)
			require.Contains(t, out, `cannot list resource "greetings" in API group "sample.remit.dev"`)
			require.NotContains(t, out, "not enrolled")
			grant, _, _ := remit(t, append(args, "--rbac-dir", folder(t, less), "-o", "yaml")...)
			_, code, err = remit(t, append(args, "--rbac-dir", folder(t, less+grant))...)
			require.NoError(t, err)
			require.Zero(t, code)
		})
	}
}

func TestReportsThatAClusterExtensionIsNotEnrolled(t *testing.T) {
	for user, flags := range map[string][]string{"User olm:clusterextension:demo": nil, "ServiceAccount demo-system/acct": {"--service-account=acct"}} {
		args := described(t, flags...)
		all := printedRBAC(t, args)
		_, grant, _ := strings.Cut(all, "  namespace: remit\n") // the end of the enrollment
		enrollment, _, _ := strings.Cut(all, "  namespace: remit\n")
		out, code, _ := remit(t, append(args, "--rbac-dir", folder(t, grant))...)
		require.Equal(t, cli.CodeMissing, code)
		require.Contains(t, out, "\n"+user+" is not enrolled: Remit is not allowed to act as it.\n")
		out, code, _ = remit(t, append(args, "--rbac-dir", folder(t, grant), "-o", "yaml")...)
		require.Equal(t, cli.CodeMissing, code)
		require.Equal(t, strings.TrimPrefix(enrollment+"  namespace: remit\n", "---\n"), strings.TrimPrefix(out, "---\n"))

		out, code, _ = remit(t, append(args, "--rbac-dir", folder(t, ""), "-o", "report")...)
		require.Equal(t, cli.CodeMissing, code)
		var d document
		require.NoError(t, yaml.UnmarshalStrict([]byte(out), &d))
		require.False(t, d.Complete)
		require.True(t, d.NotEnrolled)
		out, _, _ = remit(t, append(args, "--rbac-dir", folder(t, ""), "-o", "yaml")...)
		out, code, err := remit(t, append(args, "--rbac-dir", folder(t, out))...)
		require.NoError(t, err, out)
		require.Zero(t, code)
	}
}

func TestReadsTheClusterExtensionFromAManifest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.yaml")
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	const head = "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\n"
	spec := "spec: {namespace: demo-system, source: {sourceType: Catalog, catalog: {packageName: " + sample.Package + "}}}\n"
	args := []string{"clusterextension", "-f", file, "--catalog=" + sampleCatalog(t), "--rbac-dir", folder(t, "")}
	write("apiVersion: v1\nkind: Namespace\nmetadata: {name: demo-system}\n---\n" + head + "metadata: {name: demo}\n" + spec)
	out, code, _ := remit(t, args...)
	require.Equal(t, cli.CodeMissing, code)
	require.Contains(t, out, "User olm:clusterextension:demo is missing 10 permissions")

	write(head + "metadata: {name: demo}\n" + spec + "---\n" + head + "metadata: {name: other}\n" + spec)
	for want, more := range map[string][]string{
		"it contains 2 ClusterExtensions; specify one of them: demo, other":          nil,
		"it does not contain ClusterExtension \"x\"; it contains: demo, other":       {"x"},
		"--namespace=y: ClusterExtension other is installed in namespace":            {"other", "-n", "y"},
		"--filename and --package are mutually exclusive":                            {"--package=x"},
		"--service-account requires --package: otherwise, the ClusterExtension dete": {"--service-account=x"},
	} {
		_, code, err := remit(t, append(args, more...)...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, code)
	}
	for want, text := range map[string]string{
		`unknown field "spec.namespaces"`: head + "metadata: {name: demo}\nspec: {namespaces: x}\n",
		"it contains no ClusterExtension": "a: b\n",
		`"olm.operatorframework.io/v2" is not supported: must be "olm.operatorframework.io/v1"`: strings.ReplaceAll(head, "/v1", "/v2") + "metadata: {name: demo}\n",
		`"A" is not a valid ClusterExtension name`:                                              head + "metadata: {name: A}\n" + spec,
		`namespace "": `: head + "metadata: {name: a}\nspec: {source: {catalog: {packageName: a}}}\n",
		"spec.config.inline.watchNamespaces: the field is not supported; supported fields: watchNamespace,": head + "metadata: {name: demo}\n" +
			strings.TrimSuffix(spec, "}\n") + ", config: {configType: Inline, inline: {watchNamespaces: x}}}\n",
	} {
		write(text)
		_, code, err := remit(t, args...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, code)
	}
}

func TestReportsAlternativesToTheRequest(t *testing.T) {
	rbacDir := folder(t, "")
	for want, flags := range map[string][]string{
		`package "sample-operato" was not found in ClusterCatalog`:                               {"--package=sample-operato"},
		`packages with similar names: sample-operator`:                                           {"--package=sample-operatr"},
		`package "sample-operator" has no version in the range "2.x"; newest versions: 0.1.0`:    {"--version=2.x"},
		`package "sample-operator" has no channel "beta"; available channels: ` + sample.Channel: {"--channel=beta"},
		`"not a range"`: {"--version=not a range"},
		"no such file or directory, and not an image reference": {"--catalog=/none"},
		`namespace "A B": `:     {"--namespace=A B"},
		`service account "A": `: {"--service-account=A"},
		`spec.config.inline.watchNamespace: "a b" is not a valid name`: {"--watch-namespace=a b"},
		"--rbac-dir requires --catalog, and --filename or --package":   {"--catalog="},
	} {
		out, code, err := remit(t, append(described(t, "--rbac-dir", rbacDir), flags...)...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, code)
		require.Empty(t, out)
	}
	_, code, err := remit(t, "clusterextension", "demo", "--package=x", "--catalog=x", "--rbac-dir", rbacDir)
	require.ErrorContains(t, err, "--namespace is required with --package")
	require.Equal(t, cli.CodeError, code)
}

// hookCSV returns the CSV of an operator with a webhook.
func hookCSV() string {
	return env.PlainCSV("hook", `  minKubeVersion: 1.30.0
  customresourcedefinitions: {required: [{name: others.example.com, version: v1, kind: Other}]}
  nativeAPIs: [{group: policy, version: v1, kind: PodDisruptionBudget}]
  apiservicedefinitions: {required: [{group: metrics.example.com, version: v1, name: metrics, kind: Metric}]}
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: v.hook.example.com, deploymentName: hook, containerPort: 9443, admissionReviewVersions: [v1], sideEffects: None,
     failurePolicy: Ignore, rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]}
`)
}

// converted is the CustomResourceDefinition of an operator with a conversion webhook.
const converted = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hooks.hook.example.com}
spec:
  group: hook.example.com
  scope: Namespaced
  names: {kind: Hook, plural: hooks, singular: hook, listKind: HookList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// hookCatalog writes a directory with the bundle of a CSV and more manifests.
func hookCatalog(t *testing.T, csv string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"manifests/hook.yaml": csv, "manifests/more.yaml": strings.Join(append(more, "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}"), "---\n"),
		"metadata/dependencies.yaml": "dependencies: [{type: olm.package, value: {packageName: other, version: '>=1.0.0'}}]\n",
		"metadata/annotations.yaml": "annotations: {operators.operatorframework.io.bundle.package.v1: hook, operators.operatorframework.io.bundle.channels.v1: stable,\n" +
			"  operators.operatorframework.io.bundle.mediatype.v1: registry+v1, operators.operatorframework.io.bundle.manifests.v1: manifests/,\n" +
			"  operators.operatorframework.io.bundle.metadata.v1: metadata/}\n",
	} {
		file := filepath.Join(dir, "hook", filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

func TestTheProviderOfCertificatesDeterminesThePermissions(t *testing.T) {
	args := []string{"clusterextension", "demo", "--catalog=" + hookCatalog(t, hookCSV()), "--package=hook", "--namespace=demo-system"}
	const named = "\n  resourceNames:\n  - hook-service-cert\n  resources:\n"
	const secrets, certificates = "  - \"\"" + named + "  - secrets\n", "  - cert-manager.io" + named + "  - certificates\n  - issuers\n"
	for provider, want := range map[string]struct{ secrets, certificates bool }{
		"remit":                {secrets: true},
		"cert-manager":         {secrets: true, certificates: true}, // the identity's Certificate makes cert-manager write the Secret
		"openshift-service-ca": {},
	} {
		t.Run(provider, func(t *testing.T) {
			with := append(args, "--webhook-certificates="+provider)
			all := printedRBAC(t, with)
			require.Equal(t, want.secrets, strings.Contains(all, secrets), all)
			require.Equal(t, want.certificates, strings.Contains(all, certificates), all)
			_, code, err := remit(t, append(with, "--rbac-dir", folder(t, all))...)
			require.NoError(t, err)
			require.Zero(t, code)
			if want.secrets {
				return
			}
			out, code, _ := remit(t, append(args, "--rbac-dir", folder(t, all))...)
			require.Equal(t, cli.CodeMissing, code)
			require.Contains(t, out, `resource "secrets"`)
		})
	}
	_, _, err := remit(t, append(args, "--webhook-certificates=vault")...)
	require.ErrorContains(t, err, "must be one of remit, cert-manager, openshift-service-ca")
}

// Without a cluster, the requirements of a bundle are listed but not checked.
func TestListsTheRequirementsOfABundle(t *testing.T) {
	args := []string{"clusterextension", "demo", "--catalog=" + hookCatalog(t, hookCSV()), "--package=hook", "--namespace=demo-system"}
	out, code, err := remit(t, append(args, "--rbac-dir", folder(t, printedRBAC(t, args)), "-o", "report")...)
	require.NoError(t, err, "unchecked requirements do not make the check fail")
	require.Zero(t, code)
	var d document
	require.NoError(t, yaml.UnmarshalStrict([]byte(out), &d))
	const prefix = "not checked without a cluster: the bundle requires "
	require.Subset(t, d.Notes, []string{
		prefix + "Kubernetes 1.30.0 or later",
		prefix + `CustomResourceDefinition "others.example.com"`,
		prefix + "kind PodDisruptionBudget of policy/v1",
		prefix + `APIService "v1.metrics.example.com"`,
	})
	require.Contains(t, strings.Join(d.Notes, "\n"), prefix+"an operator with package: other and with version in range: >=1.0.0")
}

// Permissions that are needed only to remove an extension and keep its CustomResourceDefinitions are reported as notes, because
// nothing waits for these permissions.
func TestNotesTheOptionalPermissionsOfARemoval(t *testing.T) {
	csv := strings.Replace(hookCSV(), "{required: [", "{owned: [{name: hooks.hook.example.com, version: v1, kind: Hook}], required: [", 1) +
		"  - {type: ConversionWebhook, generateName: c.hook.example.com, deploymentName: hook, containerPort: 9443, conversionCRDs: [hooks.hook.example.com],\n" +
		"     admissionReviewVersions: [v1], sideEffects: None}\n"
	file := filepath.Join(t.TempDir(), "demo.yaml")
	write := func(annotations string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte("apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: demo, annotations: {"+annotations+"}}\n"+
			"spec: {namespace: demo-system, source: {sourceType: Catalog, catalog: {packageName: hook}}}\n"), 0o600))
	}
	args := []string{"clusterextension", "-f", file, "--catalog=" + hookCatalog(t, csv, converted)}
	notes := func(granted string) string {
		t.Helper()
		out, code, err := remit(t, append(args, "--rbac-dir", folder(t, granted), "-o", "report")...)
		require.NoError(t, err)
		require.Zero(t, code)
		var d document
		require.NoError(t, yaml.UnmarshalStrict([]byte(out), &d))
		return strings.Join(d.Notes, "\n")
	}
	write("")
	granted := printedRBAC(t, args)
	require.NotContains(t, notes(granted), "optional")
	write(`olm.operatorframework.io/keep-crds: "true"`)
	const note = "optional: remove Deployment demo-system/hook before resetting the conversions of kept CustomResourceDefinitions requires in namespace demo-system: "
	require.Contains(t, notes(granted), note)
	require.NotContains(t, notes(printedRBAC(t, args)), "optional")
}
