package clusterextension

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/proofs"
)

// cert-manager overwrites every Secret that a Certificate names.
func TestCertManagerOverwritesOnlyItsOwnSecrets(t *testing.T) {
	t.Parallel()
	ext, other := extension("a"), extension("b")
	marked := func(owner func(*unit) ownerutil.Owner) func(*unit, *corev1.Secret) {
		return func(u *unit, s *corev1.Secret) { proofs.Mark(s, owner(u)) }
	}
	annotated := func(value string) func(*unit, *corev1.Secret) {
		return func(_ *unit, s *corev1.Secret) {
			s.Annotations = map[string]string{"cert-manager.io/certificate-name": value}
		}
	}
	for name, tc := range map[string]struct {
		edit func(*unit, *corev1.Secret)
		ok   bool
	}{
		"no Secret":                            {nil, true},
		"created by another user":              {func(*unit, *corev1.Secret) {}, false},
		"left by a Certificate":                {annotated("op-service-cert"), true},
		"of another Certificate":               {annotated("other"), false},
		"issued by Remit":                      {marked(func(u *unit) ownerutil.Owner { return u.owner(ext) }), true},
		"issued by Remit for another operator": {marked(func(u *unit) ownerutil.Owner { return u.owner(other) }), false},
		"with the labels of the extension":     {func(u *unit, s *corev1.Secret) { s.Labels = u.owner(ext).Labels() }, false},
	} {
		u := givenUnit(t, interceptor.Funcs{})
		if tc.edit != nil {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op-service-cert", UID: "uid", CreationTimestamp: metav1.Now()}}
			tc.edit(u, secret)
			u = givenUnit(t, interceptor.Funcs{}, secret)
		}
		s := u.begin(ext)
		s.executor = &execute.Executor{Account: u.Client}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{DeploymentName: "op"}}
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "op"}}
		plan, err := hooks.New(hooks.Input{CSV: csv, Owner: s.owner, Tool: serving.CertManager("ns")})
		require.NoError(t, err)
		s.rendered = &render.Rendered{Hooks: plan}
		parts, err := plan.Parts()
		require.NoError(t, err)
		for _, obj := range parts {
			problem, err := s.checkIssued(t.Context(), obj)
			require.NoError(t, err)
			if tc.ok || obj.GetKind() != "Certificate" {
				require.NoError(t, problem, "%s: %s", name, apply.Describe(obj))
				continue
			}
			require.EqualError(t, problem, "Secret ns/op-service-cert already exists: cert-manager would overwrite it, but did not issue it for Certificate ns/op-service-cert; "+
				"it was not changed: delete it if nothing else needs it", name)
		}
	}
}
