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
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

func sampleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	return dir
}

// remit runs the command. With --rbac-dir, the command needs no cluster.
func remit(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	cmd := NewCommand()
	var buffer bytes.Buffer
	cmd.SetOut(&buffer)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return buffer.String(), cli.ExitCode(err), err
}

// printed returns the output of "kubectl remit rbac" for the bundle.
func printed(t *testing.T, bundle string) string {
	t.Helper()
	cmd := rbac.NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{bundle, "--account=team-a/installer"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return out.String()
}

func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rbac.yaml"), []byte(text), 0o600))
	return dir
}

func TestTheOutputOfRBACIsSufficient(t *testing.T) {
	bundle := sampleDir(t)
	out, code, err := remit(t, bundle, "--account=team-a/installer", "--rbac-dir", folder(t, printed(t, bundle)))
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "ServiceAccount team-a/installer has all permissions that ClusterServiceVersion sample-operator.v0.1.0 needs in namespace \"team-a\".\n", out)
}

func TestListsWhatIsMissingAndTheGrant(t *testing.T) {
	bundle := sampleDir(t)
	all := printed(t, bundle)
	less := strings.Replace(all, "  resources:\n  - greetings\n  verbs:\n  - get\n  - list\n", "  resources:\n  - greetings\n  verbs:\n  - get\n", 1)
	require.NotEqual(t, all, less)
	args := []string{bundle, "--account=team-a/installer", "--rbac-dir", folder(t, less)}

	out, code, _ := remit(t, args...)
	require.Equal(t, cli.CodeMissing, code)
	require.Contains(t, out, `cannot list resource "greetings" in API group "sample.remit.dev" in the namespace "team-a"`)
	require.Contains(t, out, "\nTo print the RBAC that grants this, add -o yaml.\n")
	require.NotContains(t, out, "kind: Role", "the text is not meant to be applied")

	grant, code, _ := remit(t, append(args, "-o", "yaml")...)
	require.Equal(t, cli.CodeMissing, code)
	require.True(t, strings.HasPrefix(grant, "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"), grant)
	_, code, err := remit(t, append(args[:3:3], folder(t, less+grant))...)
	require.NoError(t, err)
	require.Zero(t, code)
	list, code, _ := remit(t, append(args, "-o", "json")...)
	require.Equal(t, cli.CodeMissing, code)
	_, code, err = remit(t, append(args[:3:3], folder(t, less+"---\n"+list))...)
	require.NoError(t, err)
	require.Zero(t, code)

	out, code, _ = remit(t, append(args, "-o", "report")...)
	require.Equal(t, cli.CodeMissing, code)
	var d document
	require.NoError(t, yaml.UnmarshalStrict([]byte(out), &d))
	require.False(t, d.Complete)
	require.NotEmpty(t, d.Missing)
	for _, m := range d.Missing {
		require.Equal(t, "team-a", m.Namespace)
		require.NotEmpty(t, m.Rules[0].Causes)
		require.Equal(t, []string{"greetings"}, m.Rules[0].Rule.Resources)
	}
}

func TestHasADifferentExitCodeIfItCannotCheck(t *testing.T) {
	bundle := sampleDir(t)
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"--account is required":                     {bundle, "--rbac-dir", empty},
		`account "x"`:                               {bundle, "--rbac-dir", empty, "--account=x"},
		"no such file or directory":                 {bundle, "--rbac-dir", filepath.Join(empty, "none"), "--account=a/b"},
		"rbac.yaml: the document is not an object":  {bundle, "--rbac-dir", folder(t, "[]"), "--account=a/b"},
		"--rbac-dir can be used only with a bundle": {"subscription/x", "--rbac-dir", empty},
		"not a bundle":                              {empty, "--rbac-dir", empty, "--account=a/b"},
		"the argument BUNDLE":                       nil,
		`unknown install mode "x"`:                  {bundle, "--rbac-dir", empty, "--account=a/b", "--install-mode=x"},
	} {
		_, code, err := remit(t, args...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, code)
	}
}

// The controllers reject the bundle in the same way.
func TestRejectsAMisspelledFieldInPermissions(t *testing.T) {
	dir := sampleDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*clusterserviceversion*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	changed := strings.Replace(string(text), "verbs:", "resourceName: [mine]\n          verbs:", 1)
	require.NoError(t, os.WriteFile(files[0], []byte(changed), 0o600))
	const want = "unknown fields, possibly misspelled fields that restrict permissions: spec.install.spec.permissions[0].rules[0].resourceName"
	_, code, err := remit(t, dir, "--account=team-a/installer", "--rbac-dir", t.TempDir())
	require.ErrorContains(t, err, want)
	require.Equal(t, cli.CodeError, code)
	print := rbac.NewCommand()
	print.SilenceUsage, print.SilenceErrors = true, true
	print.SetArgs([]string{dir, "--account=team-a/installer"})
	require.ErrorContains(t, print.ExecuteContext(t.Context()), want)
}

// The text of the command is often piped into others, so a bundle must not be able to put a manifest into it.
func TestAVerbOfABundleIsNoManifest(t *testing.T) {
	bundle := sampleDir(t)
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*clusterserviceversion*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	raw, err := os.ReadFile(files[0])
	require.NoError(t, err)
	csv := map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &csv))
	raw, err = yaml.Marshal(csv)
	require.NoError(t, err)
	const verb = `"list them\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n...\n#"`
	changed := strings.Replace(string(raw), "- list\n", "- "+verb+"\n", 1)
	require.NotEqual(t, string(raw), changed)
	require.NoError(t, os.WriteFile(files[0], []byte(changed), 0o600))

	out, code, err := remit(t, bundle, "--account=team-a/installer", "--rbac-dir", folder(t, ""))
	require.Equal(t, cli.CodeError, code, out)
	require.ErrorContains(t, err, `verbs[1] "list them\n---\napiVersion`)
	require.NotContains(t, out+err.Error(), "\n---")
}
