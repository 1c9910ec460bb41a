package rbac

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// execute runs the command for the sample bundle.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	cmd := NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{dir}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestWarnsAboutClusterAdminInTheFirstLine(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "all.yaml"), []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"+
		"metadata: {name: all}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}\n"), 0o600))
	const want = "The requested permissions amount to cluster-admin: every verb on every resource (write ClusterRole all, which aggregates other ClusterRoles, "
	for format, prefix := range map[string]string{"yaml": "# ", "json": "warning: "} {
		cmd := NewCommand()
		var out, errOut bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&errOut)
		cmd.SetArgs([]string{dir, "--account", "team-a/installer", "-o", format})
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		if format == "json" {
			require.Truef(t, strings.HasPrefix(errOut.String(), prefix+want), errOut.String())
			require.True(t, strings.HasPrefix(out.String(), "{"))
			continue
		}
		require.Truef(t, strings.HasPrefix(out.String(), prefix+want), out.String())
		require.Contains(t, kinds(t, out.String()), "ClusterRole")
	}
}

func TestReportsFilesThatAreNotObjects(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "package.yaml"), []byte("packageName: sample\n"), 0o600))
	cmd := NewCommand()
	var out, errOut bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs([]string{dir, "--account", "team-a/installer"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, errOut.String(), `warning: manifest "package.yaml": line 1: omitted, because it is not a Kubernetes object`)
	require.NotContains(t, out.String(), "package.yaml")
}

func TestRejectsReservedGroupsWithoutApproval(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	print := func(annotations string) (string, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "apps.yaml"), []byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"+
			"metadata: {name: applications.app.k8s.io, annotations: {"+annotations+"}}\nspec: {group: app.k8s.io, names: {kind: Application, plural: applications}, scope: Namespaced,\n"+
			"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n"), 0o600))
		cmd := NewCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&bytes.Buffer{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs([]string{dir, "--account", "team-a/installer"})
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	_, err := print("")
	require.ErrorContains(t, err, "CustomResourceDefinition applications.app.k8s.io is in a protected API group")
	text, err := print(`api-approved.kubernetes.io: "https://example.com/pull/1"`)
	require.NoError(t, err)
	require.Contains(t, text, "applications.app.k8s.io")
}

// kinds lists the kinds and namespaces of manifests.
func kinds(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var obj struct {
			Kind     string
			Metadata struct{ Namespace string }
			Items    []struct {
				Kind     string
				Metadata struct{ Namespace string }
			}
		}
		if decoder.Decode(&obj) != nil {
			return out
		}
		for _, item := range obj.Items {
			out = append(out, strings.TrimSpace(item.Kind+" "+item.Metadata.Namespace))
		}
		if obj.Kind != "List" {
			out = append(out, strings.TrimSpace(obj.Kind+" "+obj.Metadata.Namespace))
		}
	}
}

var bare = []string{"ClusterRole", "ClusterRoleBinding", "Role team-a", "RoleBinding team-a"}

func TestPrintsManifestsToApply(t *testing.T) {
	whole := []string{"Namespace", "ServiceAccount team-a", "Role team-a", "RoleBinding team-a"}
	for name, row := range map[string]struct{ args, want []string }{
		"the grants":        {nil, bare},
		"as a List":         {[]string{"-o", "json"}, bare},
		"with the account":  {[]string{"--with-account"}, append(whole, bare...)},
		"another namespace": {[]string{"-n", "team-b"}, []string{"ClusterRole", "ClusterRoleBinding", "Role team-b", "RoleBinding team-b"}},
		"targets":           {[]string{"--target-namespaces=team-b"}, append(bare[:4:4], "Role team-b", "RoleBinding team-b")},
		"all namespaces":    {[]string{"--install-mode=AllNamespaces"}, bare},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--account", "team-a/installer"}, row.args...)
			text, err := execute(t, args...)
			require.NoError(t, err)
			require.Equal(t, row.want, kinds(t, text))
			again, err := execute(t, args...)
			require.NoError(t, err)
			require.Equal(t, text, again)
		})
	}
}

func TestRejectsInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--account is required":    nil,
		`account "x"`:              {"--account", "x"},
		`unknown install mode "x"`: {"--account", "a/b", "--install-mode", "x"},
		`output "text"`:            {"--account", "a/b", "-o", "text"},
	} {
		_, err := execute(t, args...)
		require.ErrorContains(t, err, want)
	}
}

func TestCompletesFlags(t *testing.T) {
	for flag, want := range map[string][]string{
		"--install-mode": {"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces", ":4"},
		"--output":       {"yaml", "json", ":4"},
	} {
		root := &cobra.Command{Use: "kubectl-remit"}
		root.AddCommand(NewCommand())
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{cobra.ShellCompRequestCmd, "rbac", flag, ""})
		require.NoError(t, root.ExecuteContext(t.Context()))
		require.Equal(t, want, strings.Fields(out.String())[:len(want)])
	}
}
