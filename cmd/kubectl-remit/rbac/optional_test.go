package rbac

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

func TestPrintsOptionalPermissions(t *testing.T) {
	const reports, copies, annotates, labels, publishes = "- operatorconditions\n", "operators.coreos.com\n  resources:\n  - clusterserviceversions\n", "- operatorgroups\n", "- namespaces\n", "- greetings.sample.remit.dev-v1-admin\n"
	all := []string{reports, copies, annotates, labels, publishes}
	for name, row := range map[string]struct{ args, want []string }{
		"not by default":  {nil, nil},
		"without a value": {[]string{"--optional"}, all},
		"all":             {[]string{"--optional=all"}, all},
		"some":            {[]string{"--optional=conditions,labels"}, []string{reports, labels}},
		"repeated":        {[]string{"--optional=copies", "--optional=annotation"}, []string{copies, annotates}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := execute(t, append([]string{"--account", "team-a/installer", "--target-namespaces=team-b"}, row.args...)...)
			require.NoError(t, err)
			var got []string
			for _, what := range all {
				if bytes.Contains([]byte(text), []byte(what)) {
					got = append(got, what)
				}
			}
			require.Equal(t, row.want, got)
		})
	}
	_, err := execute(t, "--account", "team-a/installer", "--optional=x")
	require.ErrorContains(t, err, `unknown optional feature "x": must be all or conditions, copies, annotation, labels, roles`)
}

func TestNotesRolesThatOnlyAClusterAdminMayWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.FS()))
	for value, want := range map[string]string{"roles": "note: the ClusterRoles olm.og.* of the OperatorGroup are not included", "conditions": ""} {
		cmd := NewCommand()
		var errOut bytes.Buffer
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&errOut)
		cmd.SetArgs([]string{dir, "--account", "team-a/installer", "--optional=" + value})
		require.NoError(t, cmd.ExecuteContext(t.Context()))
		if want == "" {
			require.Empty(t, errOut.String())
			continue
		}
		require.Contains(t, errOut.String(), want)
	}
}
