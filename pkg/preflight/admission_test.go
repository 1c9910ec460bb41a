package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step/execute"
)

func TestARefusalAtAdmissionIsNoMissingPermission(t *testing.T) {
	roles := rbacv1.Resource("roles")
	forbidden := func(why string) error {
		return fmt.Errorf("apply: %w", apierrors.NewForbidden(roles, "x", errors.New(why)))
	}
	hook := func(why string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w" denied the request: ` + why}}
	}
	answers := func(code int32, reason metav1.StatusReason, why string) error { // of a webhook that sets the code and the reason itself
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "w" denied the request: ` + why}}
	}
	fields := apierrors.NewInvalid(rbacv1.SchemeGroupVersion.WithKind("Role").GroupKind(), "x", field.ErrorList{field.Required(field.NewPath("rules"), "")})
	byWebhook := &apierrors.StatusError{ErrStatus: *fields.ErrStatus.DeepCopy()}
	byWebhook.ErrStatus.Message = `admission webhook "w" denied the request: ` + byWebhook.ErrStatus.Message
	policy := apierrors.NewForbidden(roles, "x", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: User may not"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code, policy.ErrStatus.Details.Causes = metav1.StatusReasonInvalid, 422, []metav1.StatusCause{{Message: "no"}}
	for name, row := range map[string]struct {
		answer error
		want   bool
	}{
		"accepted":                               {nil, false},
		"a quota":                                {forbidden("exceeded quota: q, requested: count/roles=1"), true},
		"a namespace that is terminating":        {forbidden("unable to create new content in namespace t1 because it is being terminated"), true},
		"a namespace that does not exist":        {apierrors.NewNotFound(corev1.Resource("namespaces"), "t1"), true},
		"a policy":                               {policy, true},
		"a webhook":                              {hook("no"), true},
		"a webhook that imitates the authorizer": {hook(`roles "x" is forbidden: User "u" cannot patch`), true},
		"a webhook without a code":               {answers(400, "", "no"), true},
		"a webhook with the reason BadRequest":   {answers(400, metav1.StatusReasonBadRequest, "no"), true},
		"a webhook with the reason NotFound":     {answers(404, metav1.StatusReasonNotFound, "no"), true},
		"a webhook that imitates the decoder":    {answers(400, metav1.StatusReasonBadRequest, `Role in version "v1" cannot be handled as a Role: no`), true},
		"a webhook that names fields":            {byWebhook, true},
		"a webhook without dry runs":             {apierrors.NewBadRequest(`admission webhook "w" does not support dry run`), false},
		"the decoder":                            {apierrors.NewBadRequest(`Role in version "v1" cannot be handled as a Role: no`), false},
		"the authorizer":                         {forbidden(`User "u" cannot patch resource "roles"`), false},
		"the escalation check":                   {forbidden(`user "u" (groups=["g"]) is attempting to grant RBAC permissions not currently held`), false},
		"the owner references":                   {forbidden(ownersRefused + ": no"), false},
		"a Role that does not exist":             {apierrors.NewNotFound(roles, "x"), false},
		"a schema":                               {fields, false},
		"a webhook that is down":                 {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"a concurrent change":                    {apierrors.NewConflict(roles, "x", errors.New("edited")), false},
		"an expired token":                       {apierrors.NewUnauthorized("no"), false},
		"a local error":                          {&apply.DelayedError{Why: "later"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := AtAdmission(row.answer)
			require.Equal(t, row.want, got != nil)
			require.Equal(t, row.want, execute.Occupies(got))
			require.Equal(t, slices.Contains([]string{"a schema", "the decoder"}, name), IsPermanent(row.answer))
		})
	}
	require.LessOrEqual(t, len(AtAdmission(forbidden(strings.Repeat("x", 10*MaxMessage))).Error()), MaxMessage+len("…"))
}
