package extension

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// The commands read the content of ClusterCatalogs through the API server, before the ClusterExtension exists and afterwards.
// The test is not parallel, because the commands read all ClusterCatalogs, and other tests delete theirs.
func TestCommandsForClusterExtensionsReadClusterCatalogs(t *testing.T) {
	text, err := env.SampleFBC()
	require.NoError(t, err)
	cluster.ServeCatalog(t, images, "commands", text)
	const namespace = "commands"
	described := []string{"clusterextension", "commands", "--package", bundle.Package, "-n", namespace}

	out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
	require.Equal(t, 1, code, notes)
	require.Contains(t, out, "User olm:clusterextension:commands is missing ")
	require.Contains(t, out, "- Namespace "+namespace+": it does not exist; create it\n")
	require.Contains(t, out, "User olm:clusterextension:commands is not enrolled: Remit is not allowed to act as it.\n")
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))

	granted, notes, code := cluster.Remit(t, append([]string{"rbac"}, described...)...)
	require.Zero(t, code, notes)
	require.Empty(t, notes)
	cluster.Apply(t, env.Decode(t, granted)...)
	eventually(t, func(c *assert.CollectT) {
		out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
		assert.Zero(c, code, notes)
		assert.Contains(c, out, "User olm:clusterextension:commands has all permissions that ClusterExtension commands (bundle \""+bundle.CSV+"\", version 0.1.0) needs")
	})

	require.NoError(t, cluster.Client.Create(t.Context(), env.NewClusterExtension("commands", bundle.Package)))
	out, notes, code = cluster.Remit(t, "preflight", "clusterextension", "commands")
	require.Zero(t, code, out+notes)

	for want, args := range map[string][]string{
		`ClusterExtension "comands" not found; similar names: commands; to check a ClusterExtension that does not exist yet, use --filename or --package`: {"comands"},
		`packages with similar names: ` + bundle.Package:                                             {"x", "--package", bundle.Package + "x", "-n", namespace},
		`package "` + bundle.Package + `" has no version in the range "9.x"; newest versions: 0.1.0`: {"commands", "--version=9.x"},
	} {
		for _, command := range []string{"preflight", "rbac"} {
			out, notes, code := cluster.Remit(t, append([]string{command, "clusterextension"}, args...)...)
			require.Equal(t, 2, code)
			require.Empty(t, out)
			require.Contains(t, notes, want)
		}
	}
	_, notes, code = cluster.Remit(t, append([]string{"rbac", "--as=reader", "--as-group=system:masters-of-nothing"}, described...)...)
	require.Equal(t, 2, code)
	require.Contains(t, notes, `User "reader" cannot list resource "clustercatalogs"`)
}

// demanding returns a CSV whose requirements the cluster does not meet.
func demanding() string {
	return env.PlainCSV("demanding", `  minKubeVersion: 99.0.0
  customresourcedefinitions: {required: [{name: others.demanding.example.com, version: v1, kind: Other}]}
  nativeAPIs: [{group: policy, version: v9, kind: PodDisruptionBudget}]
`)
}

// The commands report unmet requirements of a bundle in the same words as the controller. The test is not parallel, for the
// same reason as the one above.
func TestCommandsForClusterExtensionsReportUnmetRequirements(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"manifests/csv.yaml":        demanding(),
		"metadata/annotations.yaml": "annotations: {operators.operatorframework.io.bundle.package.v1: demanding, operators.operatorframework.io.bundle.channels.v1: stable}\n",
	} {
		at := filepath.Join(dir, "demanding", filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	described := []string{"clusterextension", "demanding", "--package=demanding", "--namespace=default", "--catalog", dir}
	out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
	require.Equal(t, 1, code, notes)
	for _, want := range []string{
		"minKubeVersion (99.0.0) > server version (",
		`requires CustomResourceDefinition "others.demanding.example.com": CRD is not present`,
		`requires PodDisruptionBudget "policy/v9": Native API does not exist`,
	} {
		require.Contains(t, out, "\n- requirements of the bundle: ")
		require.Contains(t, out, want)
	}
	require.Contains(t, out, "is missing", "missing permissions are also reported")
}

// Installed ClusterExtensions satisfy dependencies. Messages list the matching versions in all ClusterCatalogs.
func TestCommandsForClusterExtensionsReportMissingPackages(t *testing.T) {
	base := given(t)
	name := base.Name + "-user"
	cluster.ServeCatalog(t, images, name, env.Releases(name+".v1.0.0 stable needs="+base.Name+":>=1.0.0"))
	described := []string{"clusterextension", name, "--package", name, "-n", base.Name}
	const unmet = "requires an operator with package: "
	out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
	require.Equal(t, 1, code, notes)
	require.Contains(t, out, unmet+base.Name+" and with version in range: >=1.0.0; available: package "+base.Name+", version 2.0.0, in catalog "+base.Name)
	_, notes, code = cluster.Remit(t, append([]string{"rbac"}, described...)...)
	require.Zero(t, code, notes)
	require.Contains(t, notes, "note: nothing is installed until the cluster meets the requirements of the bundle: bundle \""+name+".v1.0.0\" "+unmet+base.Name)

	base.install("")
	t.Cleanup(base.bind(base.Identity().Subject()))
	base.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
	base.Paste(clusterextension.FileEnrollment)
	base.Installed("1.0.0")
	out, notes, _ = cluster.Remit(t, append([]string{"preflight"}, described...)...)
	require.Contains(t, out, "is missing", notes)
	require.NotContains(t, out, unmet)
	agreeOnConstraints(t, base)
}

// agreeOnConstraints checks that the commands and the controller report the same unmet olm.constraint. The
// constraint is not met because of the properties of an installed operator, which are in a ClusterCatalog that the
// ClusterExtension does not select.
func agreeOnConstraints(t *testing.T, base *scene) {
	t.Helper()
	name := base.Name + "-not"
	const constraint = `{"type":"olm.constraint","value":{"failureMessage":"other package","all":{"constraints":[{"package":%s},` +
		`{"not":{"constraints":[{"cel":{"rule":"properties.exists(p, p.type == 'olm.package')"}}]}}]}}}`
	needs := fmt.Sprintf(`{"packageName":%q,"versionRange":"1.x"}`, base.Name)
	plain := env.Releases(name + ".v1.0.0 stable needs=" + base.Name + ":1.x")
	content := strings.Replace(plain, `{"type":"olm.package.required","value":`+needs+`}`, fmt.Sprintf(constraint, needs), 1)
	require.NotEqual(t, plain, content)
	cluster.ServeCatalog(t, images, name, content)
	ext := env.NewClusterExtension(name, name)
	ext.Spec.Namespace = base.Name
	ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: name}}
	require.NoError(t, cluster.Client.Create(t.Context(), ext))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), ext) })
	reported := ""
	eventually(t, func(c *assert.CollectT) {
		assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(ext), ext))
		if progressing := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing); assert.NotNil(c, progressing) {
			assert.Equal(c, olmv1.ReasonBlocked, progressing.Reason, progressing.Message)
			_, reported, _ = strings.Cut(progressing.Message, `": `)
		}
	})
	require.Contains(t, reported, "requires an operator with package: "+base.Name)
	out, notes, code := cluster.Remit(t, "preflight", "clusterextension", name)
	require.Equal(t, 1, code, notes)
	require.Contains(t, out, reported)
}
