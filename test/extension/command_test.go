package extension

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// paste creates the objects in YAML.
func paste(t *testing.T, text string) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		require.NoError(t, cluster.Client.Create(t.Context(), obj), "%s %s", obj.GetKind(), obj.GetName())
	}
}

// The commands read the content of ClusterCatalogs through the API server, before the ClusterExtension exists and afterwards.
// The test is not parallel, because the commands read all ClusterCatalogs, and other tests delete theirs.
func TestCommandsForClusterExtensionsReadClusterCatalogs(t *testing.T) {
	text, err := env.SampleFBC()
	require.NoError(t, err)
	ref, _ := push(t, "commands:v1", text)
	create(t, "commands", ref)
	await(t, "commands", olmv1.ReasonAvailable)
	const namespace = "commands"
	described := []string{"clusterextension", "commands", "--package", bundle.Package, "-n", namespace}

	out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
	require.Equal(t, 1, code, notes)
	require.Contains(t, out, "User olm:clusterextension:commands is missing ")
	require.Contains(t, out, "- Namespace "+namespace+": it does not exist; create it\n")
	require.Contains(t, out, "User olm:clusterextension:commands is not enrolled: Remit is not allowed to act as it.\n---\n")
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))

	granted, notes, code := cluster.Remit(t, append([]string{"rbac"}, described...)...)
	require.Zero(t, code, notes)
	require.Empty(t, notes)
	paste(t, granted)
	eventually(t, func(c *assert.CollectT) {
		out, notes, code := cluster.Remit(t, append([]string{"preflight"}, described...)...)
		assert.Zero(c, code, notes)
		assert.Contains(c, out, "User olm:clusterextension:commands has all permissions that ClusterExtension commands (bundle \""+bundle.CSV+"\", version 0.1.0) needs")
	})

	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "commands"}}
	ext.Spec.Namespace = namespace
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: bundle.Package}}
	require.NoError(t, cluster.Client.Create(t.Context(), ext))
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
