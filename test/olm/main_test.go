package olm

import (
	"context"
	"fmt"
	"os"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// cluster is shared by all tests. Each test has its own namespaces.
var cluster *env.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if cluster, err = env.Start(context.Background(), env.Options{Without: []string{names.ServiceAccountCatalog}}); err != nil {
		fmt.Fprintln(os.Stderr, "olm:", err)
		return 1
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "olm:", err)
		return 1
	}
	return code
}

type (
	csv  = operatorsv1alpha1.ClusterServiceVersion
	edit = func(*csv)
)

// newCSV returns a CSV with one Deployment, whose ServiceAccount may read ConfigMaps in the targets.
func newCSV(tn *env.Tenant, edits ...edit) *csv {
	c := &csv{ObjectMeta: tn.Meta("demo.v1.0.0")}
	c.Spec.DisplayName = "Demo"
	for _, mode := range []operatorsv1alpha1.InstallModeType{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		c.Spec.InstallModes = append(c.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: true})
	}
	labels := map[string]string{"app": "demo"}
	c.Spec.InstallStrategy.StrategyName = "deployment"
	strategy := &c.Spec.InstallStrategy.StrategySpec
	strategy.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "demo", Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: "demo",
				Containers:         []corev1.Container{{Name: "manager", Image: "images.test/demo:1"}},
			},
		},
	}}}
	strategy.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "demo", Rules: []rbacv1.PolicyRule{readConfigMaps()}}}
	for _, e := range edits {
		e(c)
	}
	tn.Create(c)
	return c
}

func pod(c *csv) *corev1.PodSpec {
	return &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
}

func readConfigMaps() rbacv1.PolicyRule { return rule("", "configmaps", "get") }

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func manageRBAC() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("rbac.authorization.k8s.io", "roles", "get", "create", "patch", "delete"),
		rule("rbac.authorization.k8s.io", "rolebindings", "get", "create", "patch", "delete"),
	}
}

func manageClusterRBAC() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("rbac.authorization.k8s.io", "clusterroles", "get", "create", "patch", "delete"),
		rule("rbac.authorization.k8s.io", "clusterrolebindings", "get", "create", "patch", "delete"),
	}
}

func manageDeployments() rbacv1.PolicyRule {
	return rule("apps", "deployments", "get", "create", "patch", "delete")
}

// grantAllButDeployments grants the account the permissions that newCSV needs in its own namespace, except those on
// Deployments.
func grantAllButDeployments(tn *env.Tenant) {
	tn.T.Helper()
	tn.Grant(tn.Namespace, append(manageRBAC(), readConfigMaps(),
		rule("", "serviceaccounts", "get", "create", "patch"),
		rule("operators.coreos.com", "clusterserviceversions", "get", "patch"))...)
}

func grant(tn *env.Tenant) {
	tn.T.Helper()
	grantAllButDeployments(tn)
	tn.Grant(tn.Namespace, manageDeployments())
}

// requirePhase waits until the CSV has the given phase and reason, and returns the CSV.
func requirePhase(tn *env.Tenant, phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) *csv {
	tn.T.Helper()
	got := &csv{}
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, phase, got.Status.Phase, got.Status.Message)
		assert.Equal(c, reason, got.Status.Reason, got.Status.Message)
	})
	return got
}

func requireSucceeded(tn *env.Tenant) *csv {
	tn.T.Helper()
	return requirePhase(tn, operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful)
}
