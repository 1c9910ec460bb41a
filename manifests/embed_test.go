package manifests

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	for installation, objs := range installations(t) {
		t.Run(installation, func(t *testing.T) {
			crds, programs := crdFiles(t, "crds/operators.coreos.com_*.yaml"), 2
			if strings.HasPrefix(installation, withExtensions) {
				crds, programs = append(crds, crdFiles(t, "extensions/crds/olm.operatorframework.io_*.yaml")...), 3
			}

			require.Equal(t, "Namespace", objs[0].GetKind(), "the namespace comes first")
			require.Len(t, ofKind(objs, "CustomResourceDefinition"), len(crds))
			require.Len(t, ofKind(objs, "Deployment"), programs)
			for _, obj := range objs[len(objs)-programs:] {
				require.Equal(t, "Deployment", obj.GetKind(), "the programs come last")
			}
			for _, obj := range objs {
				require.NotPanics(t, func() { obj.DeepCopy() }, "%s %s", obj.GetKind(), obj.GetName())
				require.Equal(t, "remit", obj.GetLabels()["app.kubernetes.io/part-of"], "%s %s", obj.GetKind(), obj.GetName())
			}
		})
	}
}

// installations returns the objects of each profile, with and without ClusterExtensions. The caller must not change them.
func installations(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	all, err := rendered()
	require.NoError(t, err)
	return maps.Clone(all)
}

// rendered renders the installations once for all tests.
var rendered = sync.OnceValues(func() (map[string][]*unstructured.Unstructured, error) {
	out := map[string][]*unstructured.Unstructured{}
	var errs []error
	for _, profile := range Profiles() {
		alone, err := Render(profile)
		both, err2 := RenderWithExtensions(profile)
		out[profile], out[withExtensions+profile] = alone, both
		errs = append(errs, err, err2)
	}
	return out, errors.Join(errs...)
})

// The directory for ClusterExtensions can be applied to an existing installation.
func TestExtensionsCanBeAddedToAProfile(t *testing.T) {
	for _, profile := range Profiles() {
		added := append(slices.Clone(installations(t)[profile]), renderDirectory(t, extensions(profile))...)
		require.ElementsMatch(t, installations(t)[withExtensions+profile], added)
	}
}

func TestRejectsAnUnknownProfile(t *testing.T) {
	_, err := Render("base")
	require.ErrorContains(t, err, `unknown profile "base"`)
	_, err = RenderWithExtensions("base")
	require.ErrorContains(t, err, `unknown profile "base"`)
}

func TestOnlyCompatHasADefaultAccount(t *testing.T) {
	for profile, want := range map[string]map[string][]string{
		ProfileBounded: {},
		ProfileCompat: {
			// Only the catalog program writes CustomResourceDefinitions.
			names.ServiceAccountCatalog: {"--default-account=$(POD_NAMESPACE)/remit-default", "--crd-account=$(POD_NAMESPACE)/remit-default"},
			names.ServiceAccountOLM:     {"--default-account=$(POD_NAMESPACE)/remit-default"},
		},
	} {
		t.Run(profile, func(t *testing.T) {
			for _, deployment := range ofKind(installations(t)[withExtensions+profile], "Deployment") {
				require.Equal(t, want[deployment.GetName()], accountFlags(args(t, deployment)), deployment.GetName())
			}
		})
	}
}

// The programs start only if the policies match their flags and their identity (docs/adr/0027).
func TestThePoliciesMatchTheProgramsOfTheInstallation(t *testing.T) {
	all := installations(t)
	for name, directory := range map[string]string{
		"limited-default-account, of docs/tasks/install-remit.md": "../docs/examples/limited-default-account",
		"other-namespaces, of docs/tasks/install-remit.md":        "../docs/examples/other-namespaces",
		"other namespaces and compat":                             "testdata/other-namespaces-compat",
		"other namespaces and extensions":                         "testdata/other-namespaces-extensions",
		"other namespaces and packages":                           "testdata/other-namespaces-packages",
	} {
		all[name] = renderDirectory(t, directory)
	}
	for name, objs := range all {
		t.Run(name, func(t *testing.T) {
			for _, deployment := range ofKind(objs, "Deployment") {
				require.NoError(t, policy.Check(t.Context(), reader(t, objs), installation(t, deployment)))
			}
		})
	}
}

// A policy that only warns or audits, or that ignores evaluation errors, enforces nothing.
func TestEveryPolicyDenies(t *testing.T) {
	for _, objs := range installations(t) {
		bound := map[string]int{}
		for _, obj := range ofKind(objs, "ValidatingAdmissionPolicyBinding") {
			spec := convert[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, obj).Spec
			require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, spec.ValidationActions, obj.GetName())
			if spec.ParamRef != nil && *spec.ParamRef.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
				continue // this binding complements the policy's other binding, which allows requests without a parameter
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
	out := policy.Installation{
		Namespace: deployment.GetNamespace(), Extensions: deployment.GetName() == names.ServiceAccountExtension, Packages: deployment.GetName() == names.ServiceAccountPackageServer,
	}
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

// The programs check every policy of an installation, and are allowed to read each one that they check by name.
func TestAllPoliciesAreChecked(t *testing.T) {
	for installation, objs := range installations(t) {
		found := map[string][]string{kindPolicy: {}, kindBinding: {}}
		for _, kind := range []string{kindPolicy, kindBinding} {
			for _, obj := range ofKind(objs, kind) {
				found[kind] = append(found[kind], obj.GetName())
			}
		}
		checked := map[string][]string{}
		for _, deployment := range ofKind(objs, "Deployment") {
			policies, bindings := policyNames(t, policy.Installation{Namespace: names.DefaultNamespace, Extensions: deployment.GetName() == names.ServiceAccountExtension})
			checked[kindPolicy] = append(checked[kindPolicy], policies...)
			checked[kindBinding] = append(checked[kindBinding], bindings...)
			require.Equal(t, sorted(append(policies, bindings...)), readable(t, objs, deployment.GetName()), deployment.GetName())
		}
		for kind := range found {
			require.Equal(t, sorted(found[kind]), sorted(checked[kind]), "%s of %s", kind, installation)
		}
	}
}

func policyNames(t *testing.T, i policy.Installation) (policies, bindings []string) {
	t.Helper()
	set, err := policy.Of(i)
	require.NoError(t, err)
	for _, p := range set.Policies {
		policies = append(policies, p.Name)
	}
	for _, b := range set.Bindings {
		bindings = append(bindings, b.Name)
	}
	return policies, bindings
}

func sorted(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// readable returns the names of the policies that a program is allowed to read.
func readable(t *testing.T, objs []*unstructured.Unstructured, program string) []string {
	t.Helper()
	var out []string
	for _, obj := range ofKind(objs, "ClusterRole") {
		if obj.GetName() != program {
			continue
		}
		for _, rule := range convert[rbacv1.ClusterRole](t, obj).Rules {
			if slices.Contains(rule.Resources, "validatingadmissionpolicies") {
				out = append(out, rule.ResourceNames...)
			}
		}
	}
	return out
}

// No object refers to the default namespaces if an installation uses others.
func TestReplacesNamespacesEverywhere(t *testing.T) {
	for _, path := range []string{
		"../docs/examples/other-namespaces", "testdata/other-namespaces-compat", "testdata/other-namespaces-extensions", "testdata/other-namespaces-packages",
		"testdata/other-namespaces-any-account-bounded", "testdata/other-namespaces-any-account-compat",
	} {
		for _, obj := range renderDirectory(t, path) {
			text, err := obj.MarshalJSON()
			require.NoError(t, err)
			for _, old := range []string{`:"remit"`, `:"remit-catalogs"`, "serviceaccount:remit:", "'remit'", "remit/remit-"} {
				if obj.GetKind() != "CustomResourceDefinition" {
					require.NotContains(t, strings.ReplaceAll(string(text), `"app.kubernetes.io/part-of":"remit"`, ""), old, "%s %s", obj.GetKind(), obj.GetName())
				}
			}
			require.NotEqual(t, "ConfigMap", obj.GetKind(), "the ConfigMap with the namespaces is not part of the installation")
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

// crdFiles returns all files that "make generate" created. A file that is missing in a kustomization.yaml would not be
// rendered.
func crdFiles(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := fs.Glob(files, pattern)
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

// The images of the programs may have any user, and Pod Security does not accept root. Each Deployment has a NetworkPolicy that
// opens no port by number, and metrics only for labeled namespaces.
func TestPodsHaveAUserAndANetworkPolicy(t *testing.T) {
	all := installations(t)
	packages, err := RenderPackages()
	require.NoError(t, err)
	all["packages"] = packages
	for name, objs := range all {
		policies := map[string]networkingv1.NetworkPolicySpec{}
		for _, obj := range ofKind(objs, "NetworkPolicy") {
			policies[obj.GetName()] = convert[networkingv1.NetworkPolicy](t, obj).Spec
		}
		for _, obj := range ofKind(objs, "Deployment") {
			template := convert[appsv1.Deployment](t, obj).Spec.Template
			require.Equal(t, ptr.To(int64(65532)), template.Spec.SecurityContext.RunAsUser, "%s of %s", obj.GetName(), name)
			policy, ok := policies[obj.GetName()]
			require.True(t, ok, "%s of %s", obj.GetName(), name)
			require.Equal(t, map[string]string{"app.kubernetes.io/name": obj.GetName()}, policy.PodSelector.MatchLabels)
			require.Equal(t, template.Labels["app.kubernetes.io/name"], obj.GetName())
			open := map[string]bool{}
			for _, rule := range policy.Ingress {
				for _, port := range rule.Ports {
					open[port.Port.String()] = len(rule.From) == 0
				}
			}
			var named []string
			for _, port := range template.Spec.Containers[0].Ports {
				named = append(named, port.Name)
				everyone, ok := open[port.Name]
				require.Equal(t, port.Name != "health", ok, "%s of %s: %s", obj.GetName(), name, port.Name)
				require.Equal(t, port.Name == "content" || port.Name == "https", everyone, "%s of %s: %s", obj.GetName(), name, port.Name)
			}
			if obj.GetName() != names.ServiceAccountPackageServer { // which has only the port of its API
				require.Contains(t, named, "metrics", "PodMonitors select ports by name: %s of %s", obj.GetName(), name)
			}
		}
	}
}
