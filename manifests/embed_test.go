package manifests

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestEveryProfileRenders(t *testing.T) {
	for _, profile := range Profiles() {
		t.Run(profile, func(t *testing.T) {
			objs := render(t, profile)

			require.Equal(t, "Namespace", objs[0].GetKind(), "the namespace comes first")
			require.Len(t, ofKind(objs, "CustomResourceDefinition"), len(crdFiles(t)))
			require.Len(t, ofKind(objs, "Deployment"), 2)
			for _, obj := range objs {
				require.NotPanics(t, func() { obj.DeepCopy() }, "%s %s", obj.GetKind(), obj.GetName())
			}
		})
	}
}

func TestUnknownProfileIsAnError(t *testing.T) {
	_, err := Render("base")
	require.ErrorContains(t, err, `unknown profile "base"`)
}

func TestOnlyCompatHasADefaultAccount(t *testing.T) {
	for profile, want := range map[string]map[string][]string{
		ProfileBounded: {},
		ProfileCompat: {
			// Only this one writes CustomResourceDefinitions.
			names.ServiceAccountCatalog: {"--default-account=remit/remit-default", "--crd-account=remit/remit-default"},
			names.ServiceAccountOLM:     {"--default-account=remit/remit-default"},
		},
	} {
		t.Run(profile, func(t *testing.T) {
			for _, deployment := range ofKind(render(t, profile), "Deployment") {
				require.Equal(t, want[deployment.GetName()], accountFlags(args(t, deployment)), deployment.GetName())
			}
		})
	}
}

// The author check has to know the default account that the programs' flags name: a rule that did not
// would let anybody clear the name of a group.
func TestTheAuthorCheckKnowsTheDefaultAccount(t *testing.T) {
	for _, profile := range Profiles() {
		t.Run(profile, func(t *testing.T) {
			objs := render(t, profile)
			want := "''"
			for _, deployment := range ofKind(objs, "Deployment") {
				for _, flag := range accountFlags(args(t, deployment)) {
					if account, ok := strings.CutPrefix(flag, "--default-account="); ok {
						want = "'" + account + "'"
					}
				}
			}
			require.Equal(t, want, checkedDefault(t, objs))
		})
	}
}

// checkedDefault is the default account as the author check knows it.
func checkedDefault(t *testing.T, objs []*unstructured.Unstructured) string {
	t.Helper()
	policies := slices.DeleteFunc(ofKind(objs, "ValidatingAdmissionPolicy"), func(obj *unstructured.Unstructured) bool {
		return obj.GetName() != "remit-author-check"
	})
	require.Len(t, policies, 1)
	first := convert[admissionregistrationv1.ValidatingAdmissionPolicy](t, policies[0]).Spec.Variables[0]
	require.Equal(t, "defaultAccount", first.Name)
	return first.Expression
}

// The overlay that docs/tasks/install-remit.md shows.
func TestTheDocumentedOverlayLimitsTheDefaultAccountInBothPlaces(t *testing.T) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../docs/examples/limited-default-account")
	require.NoError(t, err)
	objs, err := objects(rendered)
	require.NoError(t, err)
	for _, deployment := range ofKind(objs, "Deployment") {
		require.Contains(t, args(t, deployment), "--default-account-namespaces=operators,monitoring")
	}
	require.Equal(t, "request.namespace in ['operators', 'monitoring'] ? 'remit/remit-default' : ''", checkedDefault(t, objs))
}

func accountFlags(args []string) []string {
	var found []string
	for _, arg := range args {
		if strings.Contains(arg, "-account=") {
			found = append(found, arg)
		}
	}
	return found
}

func render(t *testing.T, profile string) []*unstructured.Unstructured {
	t.Helper()
	objs, err := Render(profile)
	require.NoError(t, err)
	require.NotEmpty(t, objs)
	return objs
}

// crdFiles are all that make generate copied: one missing in crds/kustomization.yaml would not render.
func crdFiles(t *testing.T) []string {
	t.Helper()
	paths, err := fs.Glob(files, "crds/operators.coreos.com_*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

func ofKind(objs []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, obj := range objs {
		if obj.GetKind() == kind {
			found = append(found, obj)
		}
	}
	return found
}

func args(t *testing.T, deployment *unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.Len(t, containers, 1)
	container, ok := containers[0].(map[string]any)
	require.True(t, ok)
	found, _, err := unstructured.NestedStringSlice(container, "args")
	require.NoError(t, err)
	return found
}
