package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

type (
	csv         = operatorsv1alpha1.ClusterServiceVersion
	description = operatorsv1alpha1.WebhookDescription
	rule        = admissionregistrationv1.RuleWithOperations
	operation   = admissionregistrationv1.OperationType
)

func hook(kind operatorsv1alpha1.WebhookAdmissionType, name string, edits ...func(*description)) description {
	d := description{
		GenerateName: name, Type: kind, DeploymentName: "demo.operator", ContainerPort: 443,
		AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
	}
	if kind == operatorsv1alpha1.ConversionWebhook {
		d.ConversionCRDs = []string{"things.acme.io"}
	} else {
		d.Rules = []rule{on("acme.io", "things")}
	}
	for _, e := range edits {
		e(&d)
	}
	return d
}

func on(group, resource string, operations ...operation) rule {
	if len(operations) == 0 {
		operations = []operation{admissionregistrationv1.Create, admissionregistrationv1.Update}
	}
	return rule{Operations: operations, Rule: admissionregistrationv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource},
	}}
}

func rules(list ...rule) func(*description) { return func(d *description) { d.Rules = list } }

const (
	validating = operatorsv1alpha1.ValidatingAdmissionWebhook
	mutating   = operatorsv1alpha1.MutatingAdmissionWebhook
	conversion = operatorsv1alpha1.ConversionWebhook
)

func csvWith(hooks ...description) *csv {
	c := &csv{}
	c.Name, c.Namespace, c.UID = "demo.v1.0.0", "t1", "csv-uid"
	c.Spec.InstallModes = []operatorsv1alpha1.InstallMode{
		{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace}, {Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
	c.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "things.acme.io"}}
	c.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "demo.operator"}}
	c.Spec.WebhookDefinitions = hooks
	return c
}

func owner() ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1.0.0", UID: "csv-uid"}
}

func TestInvalidDescriptionsAreRejected(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hooks []description
		want  string
	}{
		{"a repeated name", []description{hook(validating, "a.b.c"), hook(mutating, "a.b.c")}, "CSV contains repeated WebhookDescription name"},
		{"all groups", []description{hook(validating, "a.b.c", rules(on("acme.io", "things"), on("*", "pods")))}, "webhook rules cannot include all groups"},
		{"OLM's group", []description{hook(validating, "a.b.c", rules(on("operators.coreos.com", "x")))}, "webhook rules cannot include the OLM group"},
		{"admission configurations", []description{hook(mutating, "a.b.c", rules(on("admissionregistration.k8s.io", "mutatingwebhookconfigurations")))},
			"webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"},
		{"all resources of the configurations' group", []description{hook(mutating, "a.b.c", rules(on("admissionregistration.k8s.io", "*")))},
			"webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"},
		{"tokens", []description{hook(mutating, "a.b.c", rules(on("authentication.k8s.io", "tokenreviews")))}, "authentication and authorization"},
		{"access reviews", []description{hook(mutating, "a.b.c", rules(on("authorization.k8s.io", "*")))}, "authentication and authorization"},
		{"an empty rule", []description{hook(validating, "a.b.c", rules(rule{}))}, "a rule needs apiGroups"},
		{"an unknown operation", []description{hook(validating, "a.b.c", rules(on("acme.io", "things", "READ")))}, `operation "READ" is unknown`},
		{"an unknown deployment", []description{hook(validating, "a.b.c", func(d *description) { d.DeploymentName = "x" })}, `deployment "x" is not part of the install strategy`},
		{"a port out of range", []description{hook(validating, "a.b.c", func(d *description) { d.ContainerPort = 65536 })}, "containerPort 65536 is not a valid port"},
		{"a negative port", []description{hook(validating, "a.b.c", func(d *description) { d.ContainerPort = -1 })}, "containerPort -1 is not a valid port"},
		{"a target port out of range", []description{hook(validating, "a.b.c", func(d *description) { d.TargetPort = ptr.To(intstr.FromInt32(-1)) })}, `targetPort "-1" is not a valid port`},
		{"a target port without a name", []description{hook(validating, "a.b.c", func(d *description) { d.TargetPort = ptr.To(intstr.FromString("A_b")) })}, `targetPort "A_b" is not a valid port`},
		{"a path without a slash", []description{hook(validating, "a.b.c", func(d *description) { d.WebhookPath = ptr.To("@evil/") })}, "does not begin with /"},
		{"an unknown type", []description{hook("Odd", "a.b.c")}, `webhook type "Odd" is unknown`},
		{"a name with two parts", []description{hook(validating, "a.b")}, "at least three dot-separated parts"},
		{"a very long name", []description{hook(validating, strings.Repeat("a.", 120)+"b")}, "at least three dot-separated parts"},
		{"conversion without CustomResourceDefinitions", []description{hook(conversion, "a", func(d *description) { d.ConversionCRDs = nil })}, "needs conversionCRDs"},
		{"conversion of another operator's CustomResourceDefinition", []description{hook(conversion, "a", func(d *description) { d.ConversionCRDs = []string{"widgets.acme.io"} })}, `"widgets.acme.io" is not owned`},
		{"two conversions", []description{hook(conversion, "a"), hook(conversion, "b")}, "two conversion webhooks"},
		{"conversion without versions", []description{hook(conversion, "a", func(d *description) { d.AdmissionReviewVersions = nil })}, "needs admissionReviewVersions"},
		{"too many", make([]description, 501), "at most 500"},
	} {
		t.Run(tc.name, func(t *testing.T) { require.ErrorContains(t, webhook.Validate(csvWith(tc.hooks...)), tc.want) })
	}
	require.NoError(t, webhook.Validate(csvWith(hook(validating, "a.b.c"), hook(mutating, "b.b.c"), hook(conversion, "a"))))
	for _, target := range []intstr.IntOrString{intstr.FromString("https"), intstr.FromInt32(0), intstr.FromString("")} {
		require.NoError(t, webhook.Validate(csvWith(hook(validating, "a.b.c", func(d *description) { d.ContainerPort, d.TargetPort = 0, &target }))))
	}
}

// Tools compare whole messages, so messages of the contract contain nothing else.
func TestContractMessagesNameNoWebhook(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hooks []description
		want  string
	}{
		{"a repeated name", []description{hook(validating, "a.b.c"), hook(mutating, "a.b.c")}, "CSV contains repeated WebhookDescription name"},
		{"all groups", []description{hook(validating, "a.b.c", rules(on("*", "pods")))}, "webhook rules cannot include all groups"},
		{"OLM's group", []description{hook(validating, "a.b.c", rules(on("operators.coreos.com", "x")))}, "webhook rules cannot include the OLM group"},
		{"webhooks", []description{hook(validating, "a.b.c", rules(on("admissionregistration.k8s.io", "validatingwebhookconfigurations")))},
			"webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"},
		{"one of several problems", []description{hook(validating, "a.b.c", func(d *description) { d.ContainerPort = -1 }, rules(on("*", "pods")))},
			"webhook rules cannot include all groups"},
		{"a problem that is not in the contract", []description{hook(validating, "a.b.c", rules(on("authentication.k8s.io", "*")))}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := webhook.Validate(csvWith(tc.hooks...))
			require.ErrorContains(t, err, `"a.b.c"`)
			require.Equal(t, tc.want, webhook.ContractMessage(err))
		})
	}
	require.Empty(t, webhook.ContractMessage(nil))
}

// As in OLM, only the configurations of webhooks are refused regardless of the account.
func TestOtherAdmissionResourcesAreRefusedOnlyInBoundedGroups(t *testing.T) {
	c := csvWith(hook(validating, "a.b.c", rules(on("admissionregistration.k8s.io", "validatingadmissionpolicies"))))
	require.NoError(t, webhook.Validate(c))
	require.ErrorContains(t, webhook.Refused(c), `may not intercept "validatingadmissionpolicies"`)
}

func TestAWebhookWithoutRulesIsValid(t *testing.T) {
	c := csvWith(hook(validating, "a.b.c", rules()))
	require.NoError(t, webhook.Validate(c))
	require.NoError(t, webhook.Refused(c))
	require.Equal(t, webhook.Demand{}, webhook.Intercepts(&c.Spec.WebhookDefinitions[0], webhook.Builtin))
}

func TestAConversionRequiresOnlyAllNamespaces(t *testing.T) {
	c := csvWith(hook(conversion, "a"))
	c.Spec.InstallModes[0].Supported = true
	require.ErrorContains(t, webhook.Validate(c), "only the install mode AllNamespaces")
	c.Spec.InstallModes = nil
	require.ErrorContains(t, webhook.Validate(c), "only the install mode AllNamespaces")
}

// scopes returns the actual scopes of three resources, and Either for all others.
func scopes(group, resource string) webhook.Scope {
	switch group + "/" + resource {
	case "acme.io/things", "/pods":
		return webhook.Namespaced
	case "acme.io/planets":
		return webhook.Cluster
	}
	return webhook.Either
}

func may(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func TestInterceptingRequiresPermissionToReadAndWrite(t *testing.T) {
	const create, update, remove, connect, all = admissionregistrationv1.Create, admissionregistrationv1.Update,
		admissionregistrationv1.Delete, admissionregistrationv1.Connect, admissionregistrationv1.OperationAll
	scoped := func(r rule, s admissionregistrationv1.ScopeType) rule { r.Scope = &s; return r }
	type demands = []rbacv1.PolicyRule
	for _, tc := range []struct {
		name       string
		rule       rule
		namespaced demands
		cluster    demands
	}{
		{"create", on("acme.io", "things", create), demands{may("acme.io", "things", "create", "get")}, nil},
		{"update", on("acme.io", "things", update), demands{may("acme.io", "things", "get", "patch", "update")}, nil},
		{"delete", on("acme.io", "things", remove), demands{may("acme.io", "things", "delete", "get")}, nil},
		{"connect", on("", "pods/exec", connect), demands{may("", "pods/exec", "create", "get"), may("", "pods", "get")}, nil},
		{"all operations", on("acme.io", "things", all), demands{may("acme.io", "things", "create", "delete", "get", "patch", "update")}, nil},
		{"all operations on subresources", on("acme.io", "things/status", all), demands{may("acme.io", "things/status", "create", "delete", "get", "patch", "update"), may("acme.io", "things", "get")}, nil},
		{"operations twice", on("acme.io", "things", create, all), demands{may("acme.io", "things", "create", "delete", "get", "patch", "update")}, nil},
		{"all resources", on("acme.io", "*", create), demands{may("acme.io", "*", "create", "get")}, nil},
		{"all resources and subresources", on("acme.io", "*/*", create), demands{may("acme.io", "*", "create", "get")}, nil},
		{"all subresources of one resource, which RBAC cannot express", on("acme.io", "things/*", create), demands{may("acme.io", "*", "create", "get")}, nil},
		{"one subresource of all resources", on("acme.io", "*/scale", create), demands{may("acme.io", "*/scale", "create"), may("acme.io", "*", "get")}, nil},
		{"cluster-scoped", on("acme.io", "planets", create), nil, demands{may("acme.io", "planets", "create", "get")}},
		{"cluster-scoped, subresource", on("acme.io", "planets/status", update), nil, demands{may("acme.io", "planets/status", "patch", "update"), may("acme.io", "planets", "get")}},
		{"cluster-scoped, with scope Namespaced", scoped(on("acme.io", "planets", create), "Namespaced"), demands{may("acme.io", "planets", "create", "get")}, nil},
		{"all cluster-scoped resources", scoped(on("acme.io", "*", create), "Cluster"), nil, demands{may("acme.io", "*", "create", "get")}},
		{"any scope", scoped(on("acme.io", "things", create), "*"), demands{may("acme.io", "things", "create", "get")}, nil},
		{"namespaces", on("", "namespaces", remove), nil, demands{may("", "namespaces", "delete", "get")}},
		{"another group's namespaces", on("acme.io", "namespaces", remove), demands{may("acme.io", "namespaces", "delete", "get")}, nil},
		{"unknown", on("other.io", "things", create), demands{may("other.io", "things", "create", "get")}, nil},
		{"several groups and scopes", rule{Operations: []operation{create}, Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"acme.io", "other.io"}, APIVersions: []string{"*"}, Resources: []string{"planets", "things"},
		}}, demands{may("acme.io", "things", "create", "get"), {APIGroups: []string{"other.io"}, Resources: []string{"planets", "things"}, Verbs: []string{"create", "get"}}},
			demands{may("acme.io", "planets", "create", "get")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := hook(validating, "a.b.c", rules(tc.rule))
			require.Equal(t, webhook.Demand{Namespaced: tc.namespaced, Cluster: tc.cluster}, webhook.Intercepts(&d, webhook.First(webhook.Builtin, scopes)))
		})
	}
}

func TestABoundedGroupDoesNotInterceptRefusedResources(t *testing.T) {
	const create, update, remove, connect, all = admissionregistrationv1.Create, admissionregistrationv1.Update,
		admissionregistrationv1.Delete, admissionregistrationv1.Connect, admissionregistrationv1.OperationAll
	inCluster := func(r rule) rule { r.Scope = ptr.To(admissionregistrationv1.ClusterScope); return r }
	for _, tc := range []struct {
		rule rule
		// validating and mutating are the resources that a validating or mutating webhook must not intercept; "" if there is
		// none.
		validating, mutating string
	}{
		{on("rbac.authorization.k8s.io", "rolebindings", create), "rolebindings", "rolebindings"},
		{on("rbac.authorization.k8s.io", "*", remove), "*", "*"},
		{on("RBAC.authorization.k8s.io", "roles", remove), "roles", "roles"},
		{on("authorization.openshift.io", "rolebindings", create), "rolebindings", "rolebindings"},
		{on("certificates.k8s.io", "certificatesigningrequests/approval", update), "certificatesigningrequests/approval", "certificatesigningrequests/approval"},
		{on("apiextensions.k8s.io", "customresourcedefinitions", update), "customresourcedefinitions", "customresourcedefinitions"},
		{on("apiregistration.k8s.io", "apiservices", remove), "apiservices", "apiservices"},
		{on("packages.operators.coreos.com", "*/*", create), "*/*", "*/*"},
		{on("x.olm.operatorframework.io", "things", create), "things", "things"},
		{on("", "serviceaccounts/token", create), "serviceaccounts/token", "serviceaccounts/token"},
		{on("", "serviceaccounts/*", create), "serviceaccounts/token", "serviceaccounts/token"},
		{on("", "*/token", create), "serviceaccounts/token", "serviceaccounts/token"},
		{on("", "*/*", create), "serviceaccounts/token", "serviceaccounts/token"},
		{on("", "*", all), "", "bindings"},
		{on("", "*", remove), "", ""},
		{on("", "*", update), "", ""},
		{on("", "serviceaccounts", create), "", ""},
		{on("", "pods/exec", connect), "pods/exec", "pods/exec"},
		{on("", "pods/exec", all), "pods/exec", "pods/exec"},
		{on("", "*/proxy", connect), "pods/proxy", "pods/proxy"},
		{on("", "nodes/*", connect), "nodes/proxy", "nodes/proxy"},
		{on("", "pods/*", update), "pods/ephemeralcontainers", "pods/ephemeralcontainers"},
		{on("", "pods/binding", create), "", "pods/binding"},
		{on("", "pods", all), "", ""},
		{on("", "pods/status", update), "", ""},
		{on("", "namespaces", update), "", "namespaces"},
		{on("", "namespaces/finalize", update), "", "namespaces/finalize"},
		{on("", "namespaces", remove), "", ""},
		{on("", "Nodes", update), "", "Nodes"},
		{on("storage.k8s.io", "storageclasses", create), "", "storageclasses"},
		{inCluster(on("storage.k8s.io", "*", create)), "", "*"},
		{on("storage.k8s.io", "*", create), "", ""},
		{on("acme.io", "*/*", all), "", ""},
		{on("acme.io", "rolebindings", all), "", ""},
	} {
		for kind, want := range map[operatorsv1alpha1.WebhookAdmissionType]string{validating: tc.validating, mutating: tc.mutating} {
			err := webhook.Refused(csvWith(hook(kind, "a.b.c", rules(on("acme.io", "things"), tc.rule))))
			if want == "" {
				require.NoError(t, err, "%s %v", kind, tc.rule)
				continue
			}
			require.ErrorContains(t, err, fmt.Sprintf("may not intercept %q in API group", want), "%s %v", kind, tc.rule)
		}
	}
	require.NoError(t, webhook.Refused(csvWith(hook(conversion, "a"))))
}

// Users learn that no grant helps, and what an administrator can do.
func TestTheRefusalOfAWebhookSaysWhatHelps(t *testing.T) {
	err := webhook.Refused(csvWith(hook(mutating, "webhook.dynatrace.com", rules(on("", "namespaces", admissionregistrationv1.Create, admissionregistrationv1.Update)))))
	require.EqualError(t, err, `webhook "webhook.dynatrace.com" may not intercept "namespaces" in API group "": only administrators write the resource, and a mutating webhook `+
		`would change their writes. No permission allows this; remove the rule from the bundle, or install it with a Subscription in a namespace in which an administrator `+
		`allows the installation's default account (--default-account-namespaces)`)
}

func TestInterceptingPodTemplatesRequiresIdentities(t *testing.T) {
	for _, tc := range []struct {
		rule rule
		want bool
	}{
		{on("", "pods"), true},
		{on("", "pods", admissionregistrationv1.Delete), false},
		{on("", "*", admissionregistrationv1.OperationAll), true},
		{on("", "pods/*", admissionregistrationv1.Update), true},
		{on("", "secrets"), true},
		{on("", "configmaps"), false},
		{on("apps", "deployments"), true},
		{on("apps", "deployments/scale"), false},
		{on("apps", "controllerrevisions"), true},
		{on("batch", "*/*"), true},
		{on("extensions", "deployments"), true},
		{on("acme.io", "deployments"), false},
	} {
		d := hook(mutating, "a.b.c", rules(tc.rule))
		require.Equal(t, tc.want, webhook.Intercepts(&d, webhook.Builtin).Identities, "%v", tc.rule)
		d.Type = validating
		require.False(t, webhook.Intercepts(&d, webhook.Builtin).Identities, "%v", tc.rule)
	}
}

func input(c *csv, edits ...func(*webhook.Input)) webhook.Input {
	in := webhook.Input{
		CSV: c, Owner: owner(), NamespaceUID: "ns-uid", Scopes: webhook.First(webhook.Builtin, scopes),
		Group: webhook.Group{Bounded: true, Targets: []string{"t2", "t1"}},
		Trust: func(string) []byte { return []byte("trust") },
	}
	for _, e := range edits {
		e(&in)
	}
	return in
}

// selectorOf returns the namespaceSelector of the only configuration.
func selectorOf(t *testing.T, in webhook.Input) *metav1.LabelSelector {
	t.Helper()
	return typed(t, in)[0].NamespaceSelector
}

func TestNamespaceSelectorOfAWebhook(t *testing.T) {
	byName := func(op metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: op, Values: values}}}
	}
	for _, tc := range []struct {
		name  string
		group webhook.Group
		want  *metav1.LabelSelector
	}{
		{"bounded, listed", webhook.Group{Bounded: true, Targets: []string{"t2", "t1", "t2"}}, byName("In", "t1", "t2")},
		{"bounded, all except system namespaces", webhook.Group{Bounded: true, Targets: []string{""}, Spared: []string{"remit"}},
			byName("NotIn", "kube-node-lease", "kube-public", "kube-system", "remit")},
		{"listed", webhook.Group{Targets: []string{"t2", "t1"}}, byName("In", "t1", "t2")},
		{"all", webhook.Group{Targets: []string{""}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, selectorOf(t, input(csvWith(hook(validating, "a.b.c")), func(in *webhook.Input) { in.Group = tc.group })))
		})
	}
}

func TestRememberedLooksUpEachScopeOnce(t *testing.T) {
	answer := webhook.Cluster
	ask := webhook.Remembered(func(group, resource string) webhook.Scope {
		if group+resource == "bc" {
			return webhook.Namespaced
		}
		return answer
	})
	require.Equal(t, webhook.Cluster, ask("", "a"))
	answer = webhook.Either
	require.Equal(t, webhook.Cluster, ask("", "a"))
	require.Equal(t, webhook.Namespaced, ask("b", "c"))
	require.Equal(t, webhook.Either, ask("", "d"))
	answer = webhook.Cluster
	require.Equal(t, webhook.Either, ask("", "d"), "unknown scopes are cached too")
}

func TestWithoutTargetsNoNamespaceIsSelected(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		got, err := webhook.Desired(input(csvWith(hook(validating, "a.b.c")), func(in *webhook.Input) { in.Group = webhook.Group{Bounded: bounded} }))
		require.NoError(t, err)
		require.Empty(t, got[0].Object["webhooks"])
	}
}

func TestABoundedGroupInterceptsClusterScopedObjectsOnlyIfPermitted(t *testing.T) {
	ruleScope := func(holds bool, r rule) string {
		in := input(csvWith(hook(validating, "a.b.c", rules(r))), func(in *webhook.Input) { in.Holds = func(rbacv1.PolicyRule) bool { return holds } })
		out := typed(t, in)[0].Rules
		require.Len(t, out, 1)
		if out[0].Scope == nil {
			return ""
		}
		return string(*out[0].Scope)
	}
	require.Equal(t, "Namespaced", ruleScope(true, on("acme.io", "things")))
	require.Equal(t, "Namespaced", ruleScope(false, on("acme.io", "*")))
	require.Equal(t, "Namespaced", ruleScope(false, on("other.io", "unknown")))
	require.Empty(t, ruleScope(true, on("acme.io", "*")))
	require.Equal(t, "Cluster", ruleScope(false, on("acme.io", "planets")), "the permission is required anyway")
	require.Equal(t, "Namespaced", ruleScope(true, on("", "*")), "a wildcard never includes Nodes")

	mixed := on("acme.io", "things")
	mixed.Resources = []string{"things", "planets"}
	out := typed(t, input(csvWith(hook(validating, "a.b.c", rules(mixed)))))[0].Rules
	require.Len(t, out, 2)
	require.Equal(t, []string{"things"}, out[0].Resources)
	require.EqualValues(t, "Namespaced", *out[0].Scope)
	require.Equal(t, []string{"planets"}, out[1].Resources)
	require.EqualValues(t, "Cluster", *out[1].Scope)

	out = typed(t, input(csvWith(hook(validating, "a.b.c", rules(mixed))), func(in *webhook.Input) { in.Group.Bounded = false }))[0].Rules
	require.Equal(t, []rule{mixed}, out, "unchanged")
}
