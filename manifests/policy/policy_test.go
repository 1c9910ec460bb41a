package policy

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

func check(t *testing.T, i Installation, objs ...client.Object) error {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, admissionregistrationv1.AddToScheme(scheme))
	return Check(context.Background(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build(), i)
}

func objects(t *testing.T, i Installation) []client.Object {
	t.Helper()
	set, err := Of(i)
	require.NoError(t, err)
	require.NotEmpty(t, set.Policies)
	require.GreaterOrEqual(t, len(set.Bindings), len(set.Policies))
	var out []client.Object
	for _, p := range set.Policies {
		out = append(out, p)
	}
	for _, b := range set.Bindings {
		out = append(out, b)
	}
	return out
}

func find[T client.Object](t *testing.T, objs []client.Object, name string) T {
	t.Helper()
	for _, obj := range objs {
		if typed, ok := obj.(T); ok && obj.GetName() == name {
			return typed
		}
	}
	t.Fatalf("no %s", name)
	panic("unreachable")
}

func TestAcceptsPoliciesOfTheSameInstallation(t *testing.T) {
	compat := scoped.Default{Account: types.NamespacedName{Namespace: "remit", Name: "remit-default"}}
	limited := compat
	limited.Namespaces = []string{"a", "b"}
	for name, i := range map[string]Installation{
		"bounded":         {Namespace: "remit"},
		"compat":          {Namespace: "remit", Default: compat},
		"limited":         {Namespace: "remit", Default: limited},
		"other namespace": {Namespace: "platform"},
		"extensions":      {Namespace: "platform", Extensions: true},
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, check(t, i, objects(t, i)...)) })
	}
}

// The API server stores the policies with their default values filled in.
func TestIgnoresDefaults(t *testing.T) {
	i := Installation{Namespace: "remit"}
	objs := objects(t, i)
	for _, obj := range objs {
		if p, ok := obj.(*admissionregistrationv1.ValidatingAdmissionPolicy); ok {
			p.Spec = *withDefaults(p.Spec)
			require.NotNil(t, p.Spec.MatchConstraints.ResourceRules[0].Scope)
		}
	}
	require.NoError(t, check(t, i, objs...))
}

func TestNamesWeakerPolicies(t *testing.T) {
	type policy = *admissionregistrationv1.ValidatingAdmissionPolicy
	type binding = *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	const name = "remit-self-registries"
	for want, weaken := range map[string]func(t *testing.T, objs []client.Object){
		`spec.failurePolicy is "Ignore", but must be "Fail"`: func(t *testing.T, objs []client.Object) {
			ignore := admissionregistrationv1.Ignore
			find[policy](t, objs, name).Spec.FailurePolicy = &ignore
		},
		`spec.validationActions[0] is "Audit", but must be "Deny"`: func(t *testing.T, objs []client.Object) {
			find[binding](t, objs, name).Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Audit"}
		},
		`spec.validationActions is`: func(t *testing.T, objs []client.Object) {
			find[binding](t, objs, name).Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn", "Audit"}
		},
		`spec.policyName is "other"`: func(t *testing.T, objs []client.Object) {
			find[binding](t, objs, name).Spec.PolicyName = "other"
		},
		"spec.matchResources is": func(t *testing.T, objs []client.Object) {
			find[binding](t, objs, name).Spec.MatchResources = &admissionregistrationv1.MatchResources{}
		},
		`spec.validations[0].expression is "true"`: func(t *testing.T, objs []client.Object) {
			find[policy](t, objs, name).Spec.Validations[0].Expression = "true"
		},
		"spec.validations is": func(t *testing.T, objs []client.Object) {
			p := find[policy](t, objs, name)
			p.Spec.Validations = p.Spec.Validations[1:]
		},
		"spec.matchConditions is": func(t *testing.T, objs []client.Object) {
			p := find[policy](t, objs, name)
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
		},
		"system:serviceaccount:platform:remit-catalog": func(t *testing.T, objs []client.Object) {
			find[policy](t, objs, name).Spec.MatchConditions[0].Expression = "request.userInfo.username == 'system:serviceaccount:platform:remit-catalog'"
		},
		"spec.matchConstraints.namespaceSelector.matchLabels is": func(t *testing.T, objs []client.Object) {
			p := find[policy](t, objs, name)
			p.Spec = *withDefaults(p.Spec)
			p.Spec.MatchConstraints.NamespaceSelector.MatchLabels = map[string]string{"a": "b"}
		},
		"spec.matchConstraints.excludeResourceRules is": func(t *testing.T, objs []client.Object) {
			p := find[policy](t, objs, name)
			p.Spec.MatchConstraints.ExcludeResourceRules = p.Spec.MatchConstraints.ResourceRules
		},
		`spec.variables[1].expression is "'remit/boss'"`: func(t *testing.T, objs []client.Object) {
			find[policy](t, objs, "remit-author-check").Spec.Variables[1].Expression = "'remit/boss'"
		},
	} {
		t.Run(want, func(t *testing.T) {
			i := Installation{Namespace: "remit"}
			objs := objects(t, i)
			weaken(t, objs)
			require.ErrorContains(t, check(t, i, objs...), want)
		})
	}
}

func TestEveryExtensionPolicyDenies(t *testing.T) {
	set, err := Of(Installation{Namespace: "platform", Extensions: true})
	require.NoError(t, err)
	bound := map[string]bool{}
	for _, b := range set.Bindings {
		require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, b.Spec.ValidationActions, b.Name)
		bound[b.Spec.PolicyName] = true
	}
	found := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, p := range set.Policies {
		require.Equal(t, ptr.To(admissionregistrationv1.Fail), p.Spec.FailurePolicy, p.Name)
		require.True(t, bound[p.Name], p.Name)
		found[p.Name] = p
	}
	require.ElementsMatch(t, []string{"remit-extension-author-check", "remit-extension-grants", "remit-extension-grant-bindings",
		"remit-extension-self-events", "remit-extension-self-finalizers", "remit-extension-self-labels", "remit-extension-self-reports"}, slices.Collect(maps.Keys(found)))
	require.Equal(t, "'platform'", found["remit-extension-grant-bindings"].Spec.Variables[0].Expression, "the namespace in which Remit is installed")
	require.Contains(t, found["remit-extension-self-labels"].Spec.MatchConditions[0].Expression, ":platform:remit-extension'")
}

func TestRequiresEachPolicyAndBinding(t *testing.T) {
	for _, i := range []Installation{{Namespace: "remit"}, {Namespace: "remit", Extensions: true}} {
		objs := objects(t, i)
		for n, obj := range objs {
			others := append(append([]client.Object{}, objs[:n]...), objs[n+1:]...)
			require.ErrorContains(t, check(t, i, others...), obj.GetName()+" does not exist")
		}
	}
}

// Users choose the labels of what they create. A label may exempt an object from a policy only if another policy limits who may set
// the label on objects of that kind.
func TestLabelsExemptOnlyWhereAPolicyLimitsThem(t *testing.T) {
	limited := map[string][]string{
		"remit.dev/any-account": {"catalogsources", "clusterserviceversions", "installplans", "subscriptions"}, // remit-csv-author-of-any-account
		"olm.copiedFrom":        {"clusterserviceversions"},                                                    // remit-copies
	}
	seen := map[string]bool{}
	for _, i := range []Installation{{Namespace: "remit"}, {Namespace: "remit", Extensions: true}, {Namespace: "remit", Packages: true}, {Namespace: "remit", Removals: true}} {
		for _, obj := range objects(t, i) {
			match := &admissionregistrationv1.MatchResources{}
			switch o := obj.(type) {
			case *admissionregistrationv1.ValidatingAdmissionPolicy:
				match = o.Spec.MatchConstraints
			case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
				match = cmp.Or(o.Spec.MatchResources, match)
			}
			if match.ObjectSelector == nil {
				continue
			}
			require.Empty(t, match.ObjectSelector.MatchLabels, obj.GetName())
			require.NotEmpty(t, match.ResourceRules, obj.GetName())
			for _, e := range match.ObjectSelector.MatchExpressions {
				seen[e.Key] = true
				for _, rule := range match.ResourceRules {
					require.Subset(t, limited[e.Key], rule.Resources, "%s: %s", obj.GetName(), e.Key)
				}
			}
		}
	}
	require.Len(t, seen, len(limited))
}
