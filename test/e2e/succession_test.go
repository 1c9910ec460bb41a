package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// releaseDir writes the last of the releases to a new bundle directory and returns the directory.
func releaseDir(t *testing.T, pkg string, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, text := range strings.Split(env.Releases(lines...), "\n") {
		var blob struct {
			Schema     string
			Properties []struct {
				Type  string
				Value json.RawMessage
			}
		}
		if text == "" {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(text), &blob))
		for _, p := range blob.Properties {
			var value struct{ Data []byte }
			if blob.Schema != "olm.bundle" || p.Type != "olm.bundle.object" || json.Unmarshal(p.Value, &value) != nil {
				continue
			}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "manifests"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "csv.json"), value.Data, 0o600))
		}
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "metadata"), 0o700))
	annotations := "annotations:\n  operators.operatorframework.io.bundle.package.v1: " + pkg + "\n" +
		"  operators.operatorframework.io.bundle.manifests.v1: manifests/\n  operators.operatorframework.io.bundle.metadata.v1: metadata/\n" +
		"  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  operators.operatorframework.io.bundle.channels.v1: stable\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metadata", "annotations.yaml"), []byte(annotations), 0o600))
	return dir
}

// The next version takes over some objects of the installed version and removes others. The first report of an upgrade
// lists the permissions for both, so that they can be granted together.
func TestTheFirstReportOfAnUpgradeIncludesTheSuccession(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	all := func(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	write, remove := []string{"get", "create", "patch"}, []string{"delete"}
	tn.Grant(tn.Namespace, all("", write, "serviceaccounts"), all("apps", append(remove, write...), "deployments"),
		all(rbacv1.GroupName, write, "roles", "rolebindings"), all(operatorsv1alpha1.GroupName, write, "clusterserviceversions"),
		all("", []string{"get", "watch"}, "configmaps"),
		all(operatorsv1alpha1.GroupName, []string{"get", "update", "patch"}, "operatorconditions"))
	installs := tn.Grant(tn.Namespace, all(operatorsv1alpha1.GroupName, remove, "clusterserviceversions"))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Publish("catalog", releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")

	require.NoError(t, cluster.Client.Delete(t.Context(), installs)) // the grant also permitted the removal of the old version
	tn.Publish("catalog", releasesV1, releasesV2+" reads=secrets")
	takes := []string{
		`cannot delete resource "serviceaccounts" in API group "" in the namespace "` + tn.Namespace + `" (named "a")`,
		`cannot delete resource "clusterserviceversions" in API group "operators.coreos.com" in the namespace "` + tn.Namespace + `" (named "a.v1.0.0"`,
	}
	var message string
	tn.Eventually(func(c *assert.CollectT) {
		s := subscriptions(t, tn)["a"]
		message = s.Status.GetCondition(names.ConditionPermissionsMissing).Message
		assert.Contains(c, message, `"secrets"`)
		for _, text := range takes {
			assert.Contains(c, message, text)
		}
	})
	out, _ := preflightOf(t, missing, releaseDir(t, "a", "a.v2.0.0 stable reads=secrets"), "-n", tn.Namespace)
	for _, text := range takes {
		require.Contains(t, out, text)
	}

	tn.Paste(message)
	tn.Installed("a.v2.0.0")
	list := &operatorsv1alpha1.InstallPlanList{}
	require.NoError(t, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
	require.Len(t, list.Items, 2)
}
