package catalogsource

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestTargetProblem(t *testing.T) {
	selects := map[string]string{"app": "registry"}
	for _, tt := range []struct {
		name string
		spec corev1.ServiceSpec
		want string
	}{
		{"to Pods", corev1.ServiceSpec{Selector: selects, ClusterIP: "10.96.0.9"}, ""},
		{"to Pods, on IPv6", corev1.ServiceSpec{Selector: selects, ClusterIP: "fd00::9"}, ""},
		{"to an external name", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x.example.com", Selector: selects}, "outside the cluster"},
		{"to manual Endpoints", corev1.ServiceSpec{ClusterIP: "10.96.0.9"}, "has no spec.selector"},
		{"headless", corev1.ServiceSpec{Selector: selects, ClusterIP: corev1.ClusterIPNone}, "has no cluster IP"},
		{"without a cluster IP", corev1.ServiceSpec{Selector: selects}, "has no cluster IP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := targetProblem(&corev1.Service{Spec: tt.spec})
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, tt.want)
		})
	}
}
