package csv

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const noServiceAccount = "ServiceAccount demo: NotPresent Service account does not exist"

// collides returns the expected effect for a ClusterServiceVersion that a user created and whose objects belong to someone else:
// nothing is written.
func collides(message string, unmet ...string) effect {
	return effect{phase: phasePending, reason: reasonRequirementsNotMet, message: messageNotMet + ": " + message, moves: "RequirementsNotMet", unmet: unmet}
}

// All collisions are reported together, before the operator's roles are written. When the objects are gone, the install resumes.
func TestCollisionsOfAHandMadeCSVAreKnownBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo-service"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo-service-cert"}}
	for _, row := range []struct {
		name    string
		given   change
		theirs  []client.Object
		objects []string
	}{
		{"a Deployment", func(*world) {}, []client.Object{deploymentOf("demo")}, []string{"Deployment t1/demo"}},
		{"a Service and a Secret of a webhook", hooked(operatorsv1alpha1.ValidatingAdmissionWebhook), []client.Object{service, secret},
			[]string{"Service t1/demo-service", "Secret t1/demo-service-cert"}},
		{"a Deployment and a Service of an API", serves, []client.Object{deploymentOf("demo"), service}, []string{"Deployment t1/demo", "Service t1/demo-service"}},
		{"a CustomResourceDefinition that is converted", func(w *world) {
			converts(w)
			w.Put(things())
		}, nil, []string{"CustomResourceDefinition things.example.com"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			row.given(w)
			w.Put(row.theirs...)
			got := w.settle()
			require.Empty(t, got.writes)
			require.Equal(t, phasePending, got.phase)
			for _, object := range row.objects {
				require.Contains(t, got.message, object+" already exists and was not created by this install")
			}
			if len(row.theirs) > 0 {
				w.Delete(row.theirs...)
				require.Contains(t, w.settle().writes, "acct: apply Role t1/demo.v1.0.0-demo-#")
			}
		})
	}
}
