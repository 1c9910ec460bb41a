package olm

import (
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

type (
	hook     = operatorsv1alpha1.WebhookDescription
	hookEdit = func(*hook)
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// withHook returns an edit that adds a validating webhook for ConfigMaps to a CSV. No process serves the webhook.
func withHook(edits ...hookEdit) edit {
	return func(c *csv) {
		d := hook{
			GenerateName: "v.demo.test.io", Type: operatorsv1alpha1.ValidatingAdmissionWebhook, DeploymentName: "demo", ContainerPort: 443,
			AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}
		for _, e := range edits {
			e(&d)
		}
		c.Spec.WebhookDefinitions = append(c.Spec.WebhookDefinitions, d)
	}
}

// hookNeeds returns the permissions that the account needs for the webhooks and APIs of a CSV.
func hookNeeds(tn *env.Tenant, c *csv, targets ...string) []hooks.Need {
	tn.T.Helper()
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: tn.Namespace}, CSV: "demo.v1.0.0", UID: "any"}
	c.Namespace = tn.Namespace
	p, err := hooks.New(hooks.Input{CSV: c, Owner: owner, Group: webhook.Group{Bounded: true, Targets: targets}})
	require.NoError(tn.T, err)
	needs, err := p.Needs()
	require.NoError(tn.T, err)
	return needs
}

// grantHooks grants the account the permissions that hookNeeds returned.
func grantHooks(tn *env.Tenant, needs []hooks.Need) {
	tn.T.Helper()
	for _, n := range needs {
		tn.Grant(n.Namespace, n.Rules...)
		if n.Grants == nil {
			continue
		}
		if n.Grants.GetKind() == "Role" {
			tn.Grant(n.Namespace, rule("", "secrets", "get"))
			continue
		}
		ref, _, _ := unstructured.NestedStringMap(n.Grants.Object, "roleRef")
		tn.Grant(n.Namespace, rule("rbac.authorization.k8s.io", strings.ToLower(ref["kind"])+"s", "bind"))
	}
}

// rendered returns an edited minimal CSV without creating it.
func rendered(edits ...edit) *csv {
	c := &csv{}
	c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "demo"}}
	c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = "demo"
	for _, e := range edits {
		e(c)
	}
	return c
}

func configurations(tn *env.Tenant, c assert.TestingT) []admissionregistrationv1.ValidatingWebhookConfiguration {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	assert.NoError(c, cluster.Client.List(tn.T.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: tn.Namespace}))
	return list.Items
}

func targetsOf(config admissionregistrationv1.ValidatingWebhookConfiguration) []string {
	if len(config.Webhooks) == 0 {
		return nil
	}
	return config.Webhooks[0].NamespaceSelector.MatchExpressions[0].Values
}

// hooked returns a tenant with an installed operator that has a webhook.
func hooked(t *testing.T, edits ...edit) (*env.Tenant, *csv) {
	t.Helper()
	tn := cluster.Tenant(t)
	edits = append([]edit{withHook()}, edits...)
	grant(tn)
	grantHooks(tn, hookNeeds(tn, rendered(edits...), tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, edits...)
	return tn, requireSucceeded(tn)
}

func TestCallsAnOperatorWhenItIsReady(t *testing.T) {
	t.Parallel()
	tn, got := hooked(t)
	require.Equal(t, "install strategy completed with no errors", got.Status.Message)
	require.Contains(t, got.Finalizers, names.FinalizerCSV)
	require.NotNil(t, got.Status.CertsLastUpdated)
	require.WithinDuration(t, time.Now().Add(cert.DefaultLife/3*2), got.Status.CertsRotateAt.Time, time.Hour)
	list := configurations(tn, t)
	require.Len(t, list, 1)
	require.Equal(t, []string{tn.Namespace}, targetsOf(list[0]))
	require.Equal(t, "v.demo.test.io", list[0].Labels["olm.webhook-description-generate-name"])
	secret := &corev1.Secret{}
	require.NoError(t, tn.Get("demo-service-cert", secret))
	require.Equal(t, string(secret.Data["olmCAKey"]), string(list[0].Webhooks[0].ClientConfig.CABundle))
	d := &appsv1.Deployment{}
	require.NoError(t, tn.Get("demo", d))
	require.Equal(t, secret.Annotations["olmcahash"], d.Spec.Template.Annotations["olmcahash"])
	for _, r := range got.Status.RequirementStatus {
		require.Contains(t, []operatorsv1alpha1.StatusReason{"Present"}, r.Status, "%s %s: %s", r.Kind, r.Name, r.Message)
	}

	require.NoError(t, cluster.Client.Delete(t.Context(), got))
	requireGone(tn)
	require.Empty(t, configurations(tn, t))
}

func TestCreatesWebhooksAfterAGrant(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, withHook())
	got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
	require.Contains(t, got.Status.Message, `cluster-wide {apiGroups: ["admissionregistration.k8s.io"]`)
	var dependents []string
	for _, r := range got.Status.RequirementStatus {
		if r.Name == "v.demo.test.io" {
			require.EqualValues(t, "PresentNotSatisfied", r.Status)
			dependents = append(dependents, r.Dependents[0].Message)
		}
	}
	require.Equal(t, []string{`namespaced rule:{"verbs":["delete","get"],"apiGroups":[""],"resources":["configmaps"]}`}, dependents)
	for _, obj := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.Secret{}} {
		require.True(t, apierrors.IsNotFound(tn.Get(map[bool]string{true: "demo", false: "demo-service"}[fmt.Sprintf("%T", obj) == "*v1.Deployment"], obj)))
	}
	require.Empty(t, configurations(tn, t))

	needs := hookNeeds(tn, rendered(withHook()), tn.Namespace)
	var demands, writes []hooks.Need
	for _, n := range needs {
		if strings.HasPrefix(n.Cause, "intercept") {
			demands = append(demands, n)
		} else {
			writes = append(writes, n)
		}
	}
	grantHooks(tn, writes)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Contains(c, got.Status.Message, `is missing permissions: in namespace `+tn.Namespace+` {apiGroups: [""], resources: ["configmaps"], verbs: ["delete"]}`)
	})
	require.Empty(t, configurations(tn, t), "a webhook must not intercept objects that the account may not write")
	grantHooks(tn, demands)
	requireSucceeded(tn)
	require.Len(t, configurations(tn, t), 1)
}

func TestRejectsInvalidWebhookDescriptions(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		edit    hookEdit
		message string
	}{
		"all groups": {func(d *hook) { d.Rules[0].APIGroups = []string{"*"} }, "webhook rules cannot include all groups"},
		"OLM":        {func(d *hook) { d.Rules[0].APIGroups = []string{"operators.coreos.com"} }, "webhook rules cannot include the OLM group"},
		"webhooks": {func(d *hook) {
			d.Rules[0].APIGroups, d.Rules[0].Resources = []string{"admissionregistration.k8s.io"}, []string{"mutatingwebhookconfigurations"}
		}, "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"},
		"deployment": {func(d *hook) { d.DeploymentName = "x" }, `deployment "x" is not part of the install strategy: webhook "v.demo.test.io"`},
	} {
		t.Run(name, func(t *testing.T) {
			tn := cluster.Tenant(t)
			grant(tn)
			tn.Group(env.AccountName, tn.Namespace)
			newCSV(tn, withHook(row.edit))
			got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonInvalidWebhookDescription)
			require.Equal(t, row.message, got.Status.Message)
			require.NotEmpty(t, got.Status.RequirementStatus)
			tn.Eventually(func(c *assert.CollectT) {
				list := &eventsv1.EventList{}
				assert.NoError(c, cluster.Client.List(t.Context(), list, client.InNamespace(tn.Namespace)))
				assert.True(c, slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
					return e.Reason == string(operatorsv1alpha1.CSVReasonInvalidWebhookDescription) && strings.Contains(e.Note, `"v.demo.test.io"`)
				}), "an event names the webhook")
			})
			tn.NothingWritten()
		})
	}
}

// As in OLM, a webhook without rules is installed and intercepts nothing.
func TestAWebhookWithoutRulesInterceptsNothing(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t, func(c *csv) { c.Spec.WebhookDefinitions[0].Rules = nil })
	got := configurations(tn, t)
	require.Len(t, got, 1)
	require.Len(t, got[0].Webhooks, 1)
	require.Empty(t, got[0].Webhooks[0].Rules)
}

func TestWebhooksFollowTheTargets(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t)
	other := tn.Other(nil)
	tn.Grant(other, append(manageRBAC(), readConfigMaps())...)
	group := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}
	retarget(tn, group, tn.Namespace, other)
	tn.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Contains(c, got.Status.Message, "is missing permissions: in namespace "+other)
	})
	require.Equal(t, []string{tn.Namespace}, targetsOf(configurations(tn, t)[0]), "the webhook must not apply to a namespace in which the account is missing the permission")
	tn.Grant(other, rule("", "configmaps", "delete"))
	tn.Eventually(func(c *assert.CollectT) {
		assert.ElementsMatch(c, []string{tn.Namespace, other}, targetsOf(configurations(tn, c)[0]))
	})
	requireSucceeded(tn)

	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: named(other)}))
	tn.Eventually(func(c *assert.CollectT) {
		assert.Equal(c, []string{tn.Namespace}, targetsOf(configurations(tn, c)[0]), "the deletion of a target namespace must not be blocked")
	})
}

// The CA bundle must stay: without it, the API server could not call the operator, and intercepted requests would fail.
func TestKeepsTheCABundleIfTheCertificateIsUnavailable(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t)
	trusted := configurations(tn, t)[0].Webhooks[0].ClientConfig.CABundle
	require.NotEmpty(t, trusted)
	mark := func(value string) string {
		secret := &corev1.Secret{}
		require.NoError(t, tn.Get("demo-service-cert", secret))
		before := secret.DeepCopy()
		secret.Labels[names.LabelLineage] = value
		require.NoError(t, cluster.Client.Patch(t.Context(), secret, client.MergeFrom(before)))
		return before.Labels[names.LabelLineage]
	}
	other := tn.Other(nil)
	tn.Grant(other, append(manageRBAC(), readConfigMaps(), rule("", "configmaps", "delete"))...)
	lineage := mark("another")
	retarget(tn, &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}, tn.Namespace, other)
	got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
	require.Contains(t, got.Status.Message, "Secret "+tn.Namespace+"/demo-service-cert already exists and was not created by this install")
	config := configurations(tn, t)[0]
	require.Equal(t, string(trusted), string(config.Webhooks[0].ClientConfig.CABundle))
	require.Equal(t, []string{tn.Namespace}, targetsOf(config))

	mark(lineage)
	before := got.DeepCopy()
	got.Spec.Description = "wake the controller, which does not watch Secrets"
	require.NoError(t, cluster.Client.Patch(t.Context(), got, client.MergeFrom(before)))
	tn.Eventually(func(c *assert.CollectT) {
		config := configurations(tn, c)[0]
		assert.ElementsMatch(c, []string{tn.Namespace, other}, targetsOf(config))
		assert.Equal(c, string(trusted), string(config.Webhooks[0].ClientConfig.CABundle))
	})
	requireSucceeded(tn)
}

func TestRestoresADeletedOrEditedWebhookConfiguration(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t)
	config := configurations(tn, t)[0]
	require.NoError(t, cluster.Client.Delete(t.Context(), &config))
	tn.Eventually(func(c *assert.CollectT) {
		list := configurations(tn, c)
		if assert.Len(c, list, 1) {
			assert.NotEqual(c, config.UID, list[0].UID)
		}
	})
	requireSucceeded(tn)
}

// awaitNoReads waits until the Secret has not been read for three seconds. Reconciles that are still pending would notice a
// change without a watch; the last of them is due one second after a write.
func awaitNoReads(tn *env.Tenant, secret string) {
	tn.T.Helper()
	var offset int64
	last := time.Now()
	tn.Eventually(func(c *assert.CollectT) {
		read, next, err := cluster.AuditedFrom(tn.T.Context(), offset, func(e audit.Event) bool {
			return e.Object != nil && e.Object.Namespace == tn.Namespace && e.Object.Resource == "secrets" && e.Object.Name == secret && e.Verb == "get" && e.Received.After(last)
		})
		if !assert.NoError(c, err) {
			return
		}
		offset = next
		for _, e := range read {
			last = e.Received
		}
		assert.Greater(c, time.Since(last), 3*time.Second)
	})
}

func TestRestoresADeletedOrEditedSecret(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	secret := &corev1.Secret{ObjectMeta: tn.Meta("demo-service-cert")}
	grant(tn)
	watches := rule("", "secrets", "watch")
	watches.ResourceNames = []string{secret.Name}
	grantHooks(tn, append(hookNeeds(tn, rendered(withHook()), tn.Namespace), hooks.Need{Namespace: tn.Namespace, Rules: []rbacv1.PolicyRule{watches}}))
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, withHook())
	requireSucceeded(tn)
	replaced := func(c *assert.CollectT, before, got *corev1.Secret) {
		if assert.NoError(c, tn.Get(secret.Name, got)) {
			assert.NotEmpty(c, got.Data["tls.crt"])
			assert.NotEqual(c, before.Data["tls.crt"], got.Data["tls.crt"])
		}
	}
	edit := func(obj *corev1.Secret) {
		before := obj.DeepCopy()
		obj.Data["tls.crt"] = []byte("edited")
		require.NoError(t, cluster.Client.Patch(t.Context(), obj, client.MergeFrom(before)))
	}
	remove := func(obj *corev1.Secret) { require.NoError(t, cluster.Client.Delete(t.Context(), obj)) }
	for _, change := range []func(*corev1.Secret){edit, remove, edit} {
		requireSucceeded(tn)
		awaitNoReads(tn, secret.Name)
		require.NoError(t, tn.Get(secret.Name, secret))
		change(secret)
		tn.Eventually(func(c *assert.CollectT) { replaced(c, secret, &corev1.Secret{}) })
	}
}

func TestDeletesANamespaceWhoseWebhookDoesNotAnswer(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t, func(c *csv) { c.Spec.WebhookDefinitions[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail) })
	// The Pods do not run a server, so the webhook does not respond.
	tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta("blocked")})
	tn.Eventually(func(c *assert.CollectT) {
		err := cluster.Client.Delete(context.WithoutCancel(t.Context()), &corev1.ConfigMap{ObjectMeta: tn.Meta("blocked")}, client.DryRunAll)
		assert.ErrorContains(c, err, "v.demo.test.io")
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: named(tn.Namespace)}))
	tn.Eventually(func(c *assert.CollectT) {
		assert.Empty(c, configurations(tn, c))
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: tn.Namespace}, &corev1.Namespace{})
		assert.True(c, apierrors.IsNotFound(err), "%v", err)
	})
}

// daysLeft matches the metric for the remaining validity of the serving certificate. Its groups are the namespace and
// the number of days.
var daysLeft = regexp.MustCompile(`^csv_serving_certificate_days_left\{deployment="demo",name="demo.v1.0.0",namespace="([^"]+)"\} (\S+)$`)

// expiryOfCertificate returns when the serving certificate of the Deployment "demo" expires.
func expiryOfCertificate(tn *env.Tenant) time.Time {
	tn.T.Helper()
	secret := &corev1.Secret{}
	require.NoError(tn.T, tn.Get(cert.SecretName("demo"), secret))
	pair, err := tls.X509KeyPair(secret.Data[cert.KeyCertificate], secret.Data[cert.KeyPrivate])
	require.NoError(tn.T, err)
	return pair.Leaf.NotAfter
}

func TestReportsAForbiddenRotationBeforeItIsDue(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t)
	roles := &rbacv1.RoleList{}
	require.NoError(t, cluster.Client.List(t.Context(), roles, client.InNamespace(tn.Namespace)))
	var taken []rbacv1.Role
	for _, role := range roles.Items {
		if len(role.Rules) == 1 && role.Rules[0].Resources[0] == "secrets" && slices.Contains(role.Rules[0].Verbs, "patch") {
			require.NoError(t, cluster.Client.Delete(t.Context(), &role))
			taken = append(taken, role)
		}
	}
	require.NotEmpty(t, taken)
	expiry := expiryOfCertificate(tn)
	require.WithinDuration(t, time.Now().Add(cert.DefaultLife), expiry, 24*time.Hour)
	got := &csv{}
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase)
		assert.Contains(c, got.Status.Message, `CertificateRotationBlocked: the certificate of deployment "demo", which expires on `+
			expiry.UTC().Format(time.DateOnly)+", cannot be rotated: ServiceAccount "+tn.Account.String()+
			` is missing permissions: in namespace `+tn.Namespace+` {apiGroups: [""], resources: ["secrets"], resourceNames: ["demo-service-cert"], verbs: [`)
		for _, r := range got.Status.RequirementStatus {
			if r.Kind == "Secret" {
				assert.EqualValues(c, "PresentNotSatisfied", r.Status)
			}
		}
		left, err := cluster.Measured(t.Context(), names.ServiceAccountOLM, daysLeft)
		assert.NoError(c, err)
		assert.InDelta(c, 730, left[tn.Namespace], 1)
	})
	require.Len(t, configurations(tn, t), 1, "the webhook must keep working until the certificate expires")
	for _, role := range taken {
		tn.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name}, Rules: role.Rules})
	}
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get("demo.v1.0.0", got))
		assert.Equal(c, "install strategy completed with no errors", got.Status.Message)
	})
}

func TestInstallsNothingWithPermissionToCreateButNotToUpdate(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	needs := hookNeeds(tn, rendered(withHook()), tn.Namespace)
	for i := range needs {
		if needs[i].Namespace == "" || !strings.HasPrefix(needs[i].Object, "Secret ") {
			continue
		}
		for r := range needs[i].Rules {
			needs[i].Rules[r].Verbs = slices.DeleteFunc(needs[i].Rules[r].Verbs, func(v string) bool { return v == "patch" })
		}
	}
	grantHooks(tn, needs)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, withHook())
	got := requirePhase(tn, failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)
	require.Contains(t, got.Status.Message, `resourceNames: ["demo-service-cert"], verbs: ["patch"]`)
	for name, obj := range map[string]client.Object{"demo": &appsv1.Deployment{}, "demo-service": &corev1.Service{}, "demo-service-cert": &corev1.Secret{}} {
		require.True(t, apierrors.IsNotFound(tn.Get(name, obj)), name)
	}
	require.Empty(t, configurations(tn, t))
	tn.Grant(tn.Namespace, rule("", "secrets", "patch"))
	requireSucceeded(tn)
}

// The second Deployment is written after the webhook that the first one serves has been created.
func TestDeploymentsAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	tn, _ := hooked(t, func(c *csv) {
		specs := &c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
		second := (*specs)[0].DeepCopy()
		second.Name = "after"
		second.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "after"}}
		second.Spec.Template.Labels = map[string]string{"app": "after"}
		*specs = append(*specs, *second)
	})
	var order []string
	for _, e := range tn.Writes() {
		if e.Object != nil && e.Created() && slices.Contains([]string{"secrets", "deployments", "validatingwebhookconfigurations"}, e.Object.Resource) {
			name, _, _ := strings.Cut(e.Object.Name, "-")
			order = append(order, e.Object.Resource+" "+name)
		}
	}
	require.Equal(t, []string{"secrets demo", "deployments demo", "validatingwebhookconfigurations v.demo.test.io", "deployments after"}, order)
}
