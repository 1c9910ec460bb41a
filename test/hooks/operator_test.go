package hooks

import (
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
	samplehooks "github.com/remit-olm/remit/test/operators/sample/hooks"
)

type (
	csv  = operatorsv1alpha1.ClusterServiceVersion
	hook = operatorsv1alpha1.WebhookDescription
)

const pkg = "hooker"

func nameOf(version int) string { return fmt.Sprintf("%s.v%d.0.0", pkg, version) }

// operator returns a CSV whose only Deployment serves webhooks for ConfigMaps at /validate and /mutate, and also below
// /v<version>.
func operator(version int, hooks ...hook) *csv {
	c := &csv{}
	c.Name = nameOf(version)
	c.Spec.DisplayName = "Hooker"
	for _, mode := range []operatorsv1alpha1.InstallModeType{"OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"} {
		c.Spec.InstallModes = append(c.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: true})
	}
	labels := map[string]string{"app": pkg}
	c.Spec.InstallStrategy.StrategyName = "deployment"
	strategy := &c.Spec.InstallStrategy.StrategySpec
	strategy.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: pkg, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: pkg,
			Containers: []corev1.Container{{
				Name: "hooks", Image: bundlev2.OperatorImage,
				Env: []corev1.EnvVar{{Name: "SERVE", Value: "only-hooks"}, {Name: "HOOKS_PREFIX", Value: fmt.Sprintf("/v%d", version)}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(8081)},
				}},
			}},
		}},
	}}}
	strategy.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: pkg, Rules: []rbacv1.PolicyRule{rule("", "configmaps", "get")}}}
	if len(hooks) == 0 {
		hooks = []hook{validating("v.hooker.remit.dev", "/validate"), mutating("m.hooker.remit.dev", "/mutate")}
	}
	c.Spec.WebhookDefinitions = hooks
	return c
}

func validating(name, path string) hook {
	return hook{
		GenerateName: name, Type: operatorsv1alpha1.ValidatingAdmissionWebhook, DeploymentName: pkg, ContainerPort: 443,
		TargetPort: ptr.To(intstr.FromInt32(9443)), WebhookPath: &path, AdmissionReviewVersions: []string{"v1"},
		SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), FailurePolicy: ptr.To(admissionregistrationv1.Fail),
		TimeoutSeconds: ptr.To(int32(30)),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
}

func mutating(name, path string) hook {
	h := validating(name, path)
	h.Type = operatorsv1alpha1.MutatingAdmissionWebhook
	return h
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func toMap(c *csv) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(c)
}

// grant grants the account the permissions that the operator needs for these targets.
func grant(tn *env.Tenant, c *csv, targets ...string) {
	tn.T.Helper()
	namespaced := []rbacv1.PolicyRule{
		rule("rbac.authorization.k8s.io", "roles", "get", "create", "patch", "delete"),
		rule("rbac.authorization.k8s.io", "rolebindings", "get", "create", "patch", "delete"),
		rule("", "configmaps", "get", "create"),
	}
	for _, target := range targets {
		tn.Grant(target, namespaced...)
	}
	tn.Grant(tn.Namespace, rule("", "serviceaccounts", "get", "create", "patch", "delete"), rule("apps", "deployments", "get", "create", "patch", "delete"),
		rule("operators.coreos.com", "clusterserviceversions", "get", "patch", "delete"), rule("", "secrets", "get"))
	placed := c.DeepCopy()
	placed.Namespace = tn.Namespace
	p, err := hooks.New(hooks.Input{
		CSV: placed, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: tn.Namespace}, CSV: c.Name, UID: "any"},
		Group: webhook.Group{Bounded: true, Targets: targets},
	})
	require.NoError(tn.T, err)
	needs, err := p.Needs()
	require.NoError(tn.T, err)
	for _, n := range needs {
		tn.Grant(n.Namespace, n.Rules...)
	}
}

// install creates the CSV and waits until it has succeeded.
func install(tn *env.Tenant, c *csv) {
	tn.T.Helper()
	c.Namespace = tn.Namespace
	tn.Create(c)
	succeeded(tn, c.Name)
}

func succeeded(tn *env.Tenant, name string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get(name, got))
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, got.Status.Message)
	})
}

// message returns a ConfigMap that contains a message.
func message(namespace, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "message-" + rand.String(8)}, Data: map[string]string{"message": text}}
}

// calledIn reports whether both webhooks are called for a namespace: the validating one refuses objects, and the
// mutating one labels them.
func calledIn(t assert.TestingT, c client.Client, namespace string) bool {
	ctx := contextOf(t)
	refused := c.Create(ctx, message(namespace, samplehooks.Refused), client.DryRunAll)
	marked := message(namespace, "hello")
	if err := c.Create(ctx, marked, client.DryRunAll); err != nil {
		return assert.NoError(t, err)
	}
	return refused != nil && strings.Contains(refused.Error(), "does not say goodbye") && marked.Labels[samplehooks.Label] != ""
}
