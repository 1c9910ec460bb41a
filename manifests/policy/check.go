package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// maxValue is the maximum length, in bytes, of each value in an error.
const maxValue = 300

// Check compares the cluster's policies with those that an installation needs. The error names each policy that is
// missing or differs; for the latter, it also describes the first difference.
func Check(ctx context.Context, c client.Reader, i Installation) error {
	want, err := Of(i)
	if err != nil {
		return err
	}
	var problems []error
	for _, policy := range want.Policies {
		live := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(policy), live); err != nil {
			problems = append(problems, unread(kindPolicy, policy.Name, err))
			continue
		}
		problems = append(problems, different(kindPolicy, policy.Name, withDefaults(policy.Spec), withDefaults(live.Spec)))
	}
	for _, binding := range want.Bindings {
		live := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(binding), live); err != nil {
			problems = append(problems, unread(kindBinding, binding.Name, err))
			continue
		}
		problems = append(problems, different(kindBinding, binding.Name, boundWithDefaults(binding.Spec), boundWithDefaults(live.Spec)))
	}
	return errors.Join(problems...)
}

func unread(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s does not exist", kind, name)
	}
	return fmt.Errorf("%s %s cannot be read: %w", kind, name, err)
}

// withDefaults sets the API server's defaults.
func withDefaults(spec admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionregistrationv1.ValidatingAdmissionPolicySpec {
	out := spec.DeepCopy()
	if out.FailurePolicy == nil {
		fail := admissionregistrationv1.Fail
		out.FailurePolicy = &fail
	}
	matchWithDefaults(out.MatchConstraints)
	return out
}

func boundWithDefaults(spec admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec {
	out := spec.DeepCopy()
	matchWithDefaults(out.MatchResources)
	if out.ParamRef != nil && out.ParamRef.ParameterNotFoundAction == nil {
		deny := admissionregistrationv1.DenyAction
		out.ParamRef.ParameterNotFoundAction = &deny
	}
	return out
}

func matchWithDefaults(m *admissionregistrationv1.MatchResources) {
	if m == nil {
		return
	}
	if m.MatchPolicy == nil {
		equivalent := admissionregistrationv1.Equivalent
		m.MatchPolicy = &equivalent
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{m.ResourceRules, m.ExcludeResourceRules} {
		for n := range rules {
			if rules[n].Scope == nil {
				all := admissionregistrationv1.AllScopes
				rules[n].Scope = &all
			}
		}
	}
}

// different describes the first difference between two specs, or returns nil if they are equal.
func different(kind, name string, want, got any) error {
	wanted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	found, err := runtime.DefaultUnstructuredConverter.ToUnstructured(got)
	if err != nil {
		return err
	}
	path, a, b := firstDifference("spec", wanted, found)
	if path == "" {
		return nil
	}
	return fmt.Errorf("%s %s: %s is %s, but must be %s", kind, name, path, shown(b), shown(a))
}

func shown(value any) string {
	if value == nil {
		return "not set"
	}
	text := fmt.Sprintf("%q", fmt.Sprint(value))
	if len(text) > maxValue {
		text = text[:maxValue] + `..."`
	}
	return status.Text(text)
}

// firstDifference returns the path and both values; the path is empty if the values are equal.
func firstDifference(path string, a, b any) (string, any, any) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return path, a, b
		}
		keys := maps.Clone(x)
		maps.Copy(keys, y)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if at, v, w := firstDifference(path+"."+key, x[key], y[key]); at != "" {
				return at, v, w
			}
		}
		return "", nil, nil
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return path, a, b
		}
		for n := range x {
			if at, v, w := firstDifference(fmt.Sprintf("%s[%d]", path, n), x[n], y[n]); at != "" {
				return at, v, w
			}
		}
		return "", nil, nil
	}
	if reflect.DeepEqual(a, b) {
		return "", nil, nil
	}
	return path, a, b
}
