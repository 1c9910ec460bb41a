package preflight

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Required reports all permissions that an identity needs to install a bundle. It assumes that the identity has no
// permissions yet. optional are further needs, such as those that Optional returns.
func Required(identity scoped.Identity, b *bundle.Bundle, scope build.Scope, optional ...rbac.Need) (Report, error) {
	steps, err := build.NewStepResourceFromBundle(b, scope, build.Unchecked{})
	if err != nil {
		return Report{}, err
	}
	needs, err := NeedsOf(steps.Steps, nothingLive, func(step.Step) bool { return false })
	if err != nil {
		return Report{}, err
	}
	report := Examine(identity, append(needs, optional...), func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} })
	for _, s := range steps.Steps {
		if err := execute.Reserved(s); err != nil {
			report.Refuse(apply.Describe(s.Object), err)
		}
	}
	return report, nil
}

func nothingLive(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource(ref.Kind), ref.Name)
}
