package manifests

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/manifests/policy"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
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

func TestRejectsAnUnknownProfile(t *testing.T) {
	_, err := Render("base")
	require.ErrorContains(t, err, `unknown profile "base"`)
}

func TestOnlyCompatHasADefaultAccount(t *testing.T) {
	for profile, want := range map[string]map[string][]string{
		ProfileBounded: {},
		ProfileCompat: {
			// Only this program writes CustomResourceDefinitions.
			names.ServiceAccountCatalog: {"--default-account=$(POD_NAMESPACE)/remit-default", "--crd-account=$(POD_NAMESPACE)/remit-default"},
			names.ServiceAccountOLM:     {"--default-account=$(POD_NAMESPACE)/remit-default"},
		},
	} {
		t.Run(profile, func(t *testing.T) {
			for _, deployment := range ofKind(render(t, profile), "Deployment") {
				require.Equal(t, want[deployment.GetName()], accountFlags(args(t, deployment)), deployment.GetName())
			}
		})
	}
}

// Both programs start only if the policies match their flags and their identity (docs/adr/0027).
func TestThePoliciesMatchTheProgramsOfTheInstallation(t *testing.T) {
	for name, objs := range map[string][]*unstructured.Unstructured{
		ProfileBounded: render(t, ProfileBounded),
		ProfileCompat:  render(t, ProfileCompat),
		"limited-default-account, of docs/tasks/install-remit.md": renderDirectory(t, "../docs/examples/limited-default-account"),
		"other-namespaces, of docs/tasks/install-remit.md":        renderDirectory(t, "../docs/examples/other-namespaces"),
		"other namespaces and compat":                             renderDirectory(t, "testdata/other-namespaces-compat"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, deployment := range ofKind(objs, "Deployment") {
				require.NoError(t, policy.Check(t.Context(), reader(t, objs), installation(t, deployment)))
			}
		})
	}
}

// A policy that only warns or audits, or that ignores evaluation errors, enforces nothing.
func TestEveryPolicyDenies(t *testing.T) {
	for _, profile := range Profiles() {
		objs := render(t, profile)
		bound := map[string]int{}
		for _, obj := range ofKind(objs, "ValidatingAdmissionPolicyBinding") {
			spec := convert[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, obj).Spec
			require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, spec.ValidationActions, obj.GetName())
			if spec.ParamRef != nil && *spec.ParamRef.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
				continue // it complements the policy's other binding, which allows requests without a parameter
			}
			require.Nil(t, spec.MatchResources, obj.GetName())
			bound[spec.PolicyName]++
		}
		policies := ofKind(objs, "ValidatingAdmissionPolicy")
		require.NotEmpty(t, policies)
		for _, obj := range policies {
			spec := convert[admissionregistrationv1.ValidatingAdmissionPolicy](t, obj).Spec
			require.Equal(t, ptr.To(admissionregistrationv1.Fail), spec.FailurePolicy, obj.GetName())
			require.Positive(t, bound[obj.GetName()], "%s is not bound", obj.GetName())
		}
	}
}

// installation returns the installation that the flags of a Deployment's program describe.
func installation(t *testing.T, deployment *unstructured.Unstructured) policy.Installation {
	t.Helper()
	out := policy.Installation{Namespace: deployment.GetNamespace()}
	for _, flag := range args(t, deployment) {
		if account, ok := strings.CutPrefix(flag, "--default-account="); ok {
			key, err := scoped.ParseKey(strings.ReplaceAll(account, "$(POD_NAMESPACE)", deployment.GetNamespace()))
			require.NoError(t, err)
			out.Default.Account = key
		}
		if namespaces, ok := strings.CutPrefix(flag, "--default-account-namespaces="); ok {
			out.Default.Namespaces = strings.Split(namespaces, ",")
		}
	}
	return out
}

func reader(t *testing.T, objs []*unstructured.Unstructured) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, admissionregistrationv1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, obj := range ofKind(objs, "ValidatingAdmissionPolicy") {
		builder.WithObjects(convert[admissionregistrationv1.ValidatingAdmissionPolicy](t, obj))
	}
	for _, obj := range ofKind(objs, "ValidatingAdmissionPolicyBinding") {
		builder.WithObjects(convert[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, obj))
	}
	return builder.Build()
}

const (
	kindPolicy  = "ValidatingAdmissionPolicy"
	kindBinding = "ValidatingAdmissionPolicyBinding"
)

// The programs check every policy of an installation, and are allowed to read it by name.
func TestAllPoliciesAreChecked(t *testing.T) {
	set, err := policy.Of(policy.Installation{Namespace: names.DefaultNamespace})
	require.NoError(t, err)
	want := map[string][]string{}
	for _, p := range set.Policies {
		want[kindPolicy] = append(want[kindPolicy], p.Name)
	}
	for _, b := range set.Bindings {
		want[kindBinding] = append(want[kindBinding], b.Name)
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(want[kindPolicy], want[kindBinding]))))
	for _, profile := range Profiles() {
		objs := render(t, profile)
		for kind, names := range want {
			var got []string
			for _, obj := range ofKind(objs, kind) {
				got = append(got, obj.GetName())
			}
			require.ElementsMatch(t, names, got, "%s of %s", kind, profile)
		}
		for _, obj := range ofKind(objs, "ClusterRole") {
			for _, rule := range convert[rbacv1.ClusterRole](t, obj).Rules {
				if slices.Contains(rule.Resources, "validatingadmissionpolicies") {
					require.Equal(t, all, rule.ResourceNames, obj.GetName())
				}
			}
		}
	}
}

// No object keeps the default namespaces if an installation uses others.
func TestReplacesNamespacesEverywhere(t *testing.T) {
	for _, path := range []string{"../docs/examples/other-namespaces", "testdata/other-namespaces-compat"} {
		for _, obj := range renderDirectory(t, path) {
			text, err := obj.MarshalJSON()
			require.NoError(t, err)
			for _, old := range []string{`:"remit"`, `:"remit-catalogs"`, "serviceaccount:remit:", "'remit'", "remit/remit-"} {
				if obj.GetKind() != "CustomResourceDefinition" {
					require.NotContains(t, strings.ReplaceAll(string(text), `"app.kubernetes.io/part-of":"remit"`, ""), old, "%s %s", obj.GetKind(), obj.GetName())
				}
			}
			require.NotEqual(t, "ConfigMap", obj.GetKind(), "the names are not applied")
		}
	}
}

func renderDirectory(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	objs, err := RenderDirectory(path)
	require.NoError(t, err)
	return objs
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

// crdFiles returns all files that make generate copied: one that is missing in crds/kustomization.yaml would not render.
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
