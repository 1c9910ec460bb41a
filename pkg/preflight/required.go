package preflight

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Required reports what the installation of a bundle requires of an account without permissions: the least that has to
// be granted.
func Required(account types.NamespacedName, b *bundle.Bundle, scope build.Scope) (Report, error) {
	steps, err := build.NewStepResourceFromBundle(b, scope, allowAll{})
	if err != nil {
		return Report{}, err
	}
	needs, err := NeedsOf(steps.Steps, nothingLive, func(step.Step) bool { return false })
	if err != nil {
		return Report{}, err
	}
	report, err := Evaluate(account, needs, func(string) ([]rbacv1.PolicyRule, error) { return nil, nil })
	if err != nil {
		return Report{}, err
	}
	for _, s := range steps.Steps {
		if err := execute.Reserved(s); err != nil {
			report.Refuse(apply.Describe(s.Object), err)
		}
	}
	return report, nil
}

// allowAll is a build.RuleChecker that finds nothing missing.
type allowAll struct{}

func (allowAll) MissingRules(*corev1.ServiceAccount, string, []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	return nil, nil
}

func nothingLive(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource(ref.Kind), ref.Name)
}
