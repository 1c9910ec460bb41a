package clusterextension

import (
	"errors"
	"fmt"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/test/env/recorded"
)

// No watch reports when a policy, a webhook or a quota no longer refuses an object.
func TestARefusedWriteIsTriedAgain(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	attempt := func(name string, answer error) (outcome, time.Duration, error) {
		s := u.begin(extension(name))
		s.bundle = &bundle.Bundle{CSV: &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "op.v1"}}}
		out, err := s.failed(fmt.Errorf("apply ConfigMap ns/x: %w", answer))
		return out, s.after, err
	}
	for name, refusal := range map[string]error{
		"policy":  recorded.ByAPolicy("configmaps", "x"),
		"webhook": recorded.ByAWebhook(),
		"quota":   apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errors.New("exceeded quota: objects")),
	} {
		t.Run(name, func(t *testing.T) {
			var last time.Duration
			for range 20 {
				out, after, err := attempt(name, refusal)
				require.NoError(t, err)
				require.Equal(t, metav1.Condition{Status: metav1.ConditionTrue, Reason: olmv1.ReasonRetrying}, out.progressing)
				require.Contains(t, string(out.message), refusal.Error())
				require.True(t, after > last || after == lastRetry, after)
				last = after
			}
			require.Equal(t, lastRetry, last)
		})
	}
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), "x", field.ErrorList{field.Required(field.NewPath("data"), "")})
	out, after, err := attempt("invalid", invalid)
	require.NoError(t, err)
	require.Equal(t, metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonBlocked}, out.progressing)
	require.Zero(t, after, "only the author of the bundle can correct the object")
	missing := apierrors.NewForbidden(corev1.Resource("configmaps"), "x", errors.New(`User "u" cannot patch resource "configmaps"`))
	_, _, err = attempt("missing", missing)
	require.ErrorIs(t, err, missing)
}
