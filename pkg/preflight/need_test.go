package preflight

import (
	"errors"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// object returns a step for an object named "x"; rest is additional YAML of the object.
func object(t *testing.T, apiVersion, kind, namespace, rest string) step.Step {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte(rest), &obj.Object))
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName("x")
	return step.Step{Object: obj, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: "ns"}, CSV: "csv"}}
}

func rbacObject(t *testing.T, kind, namespace, rest string) step.Step {
	return object(t, "rbac.authorization.k8s.io/v1", kind, namespace, rest)
}

func may(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func onlyNeeds(t *testing.T, live rbac.RoleRules, steps ...step.Step) []Need {
	t.Helper()
	needs, err := NeedsOf(steps, live, func(step.Step) bool { return false })
	require.NoError(t, err)
	return needs
}

// granting returns a function that returns the permissions of an account that has the rules in every scope.
func granting(rules ...rbacv1.PolicyRule) func(string) rbac.Permissions {
	return func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace, Rules: rules} }
}

// onX returns the need for requests with these verbs for the object named "x".
func onX(namespace, group, resource, object, cause string, verbs ...string) Need {
	return Need{Namespace: namespace, Object: object, Cause: cause, Rules: []rbacv1.PolicyRule{
		{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{"x"}}}}
}

func TestNeedsOfEachKind(t *testing.T) {
	const csv = "spec: {install: {strategy: deployment, spec: {deployments: [{name: x}]}}}"
	const rules = "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"
	pods := []rbacv1.PolicyRule{may("get", "", "pods")}
	escalate := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{may("escalate", rbacv1.GroupName, resource, "x")}
	}
	role := onX("ns", rbacv1.GroupName, "roles", "Role ns/x", "apply Role ns/x", "create", "patch", "get")
	cluster := []Need{
		onX("", rbacv1.GroupName, "clusterroles", "ClusterRole x", "apply ClusterRole x", "create", "patch", "get"),
		onX("", rbacv1.GroupName, "clusterroles", "ClusterRole x", "remove ClusterRole x with ClusterServiceVersion ns/csv", "delete"),
	}
	for _, row := range []struct {
		name string
		step step.Step
		want []Need
	}{
		{"a namespaced object", object(t, "v1", "ConfigMap", "ns", ""), []Need{
			onX("ns", "", "configmaps", "ConfigMap ns/x", "apply ConfigMap ns/x", "create", "patch", "get"),
		}},
		{"a CRD is read by the controller identity", object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", ""), []Need{
			onX("", "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition x", "apply CustomResourceDefinition x", "create", "patch"),
		}},
		{"a CSV and its Deployments", object(t, "operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", csv), []Need{
			onX("ns", "operators.coreos.com", "clusterserviceversions", "ClusterServiceVersion ns/x", "apply ClusterServiceVersion ns/x", "create", "patch", "get"),
			onX("ns", "operators.coreos.com", "clusterserviceversions", "ClusterServiceVersion ns/x", "annotate and set the finalizers of ClusterServiceVersion ns/x", "patch"),
			onX("ns", "operators.coreos.com", "clusterserviceversions", "ClusterServiceVersion ns/x", "remove ClusterServiceVersion ns/x after another version has replaced it", "delete"),
			onX("ns", "apps", "deployments", "Deployment ns/x", "apply Deployment ns/x", "create", "patch", "get"),
			onX("ns", "apps", "deployments", "Deployment ns/x", "remove Deployment ns/x if ClusterServiceVersion ns/x no longer contains it", "delete"),
		}},
		{"a Role's rules, or escalate", rbacObject(t, "Role", "ns", rules), []Need{role, {
			Namespace: "ns", Rules: pods, Granted: true, Object: "Role ns/x", Cause: "grant the rules of Role ns/x", Alternatives: escalate("roles"),
		}}},
		{"a Role of a target is removed with the CSV", rbacObject(t, "Role", "target", ""), []Need{
			onX("target", rbacv1.GroupName, "roles", "Role target/x", "apply Role target/x", "create", "patch", "get"),
			onX("target", rbacv1.GroupName, "roles", "Role target/x", "remove Role target/x with ClusterServiceVersion ns/csv", "delete"),
		}},
		{"a ClusterRole's rules, cluster-wide", rbacObject(t, "ClusterRole", "", rules), append(cluster[:2:2], Need{
			Rules: pods, Granted: true, Object: "ClusterRole x", Cause: "grant the rules of ClusterRole x", Alternatives: escalate("clusterroles"),
		})},
		{"58 an aggregated ClusterRole requires all permissions", rbacObject(t, "ClusterRole", "", "aggregationRule: {clusterRoleSelectors: [{}]}"), append(cluster[:2:2], Need{
			Rules:   []rbacv1.PolicyRule{may("*", "*", "*"), {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
			Granted: true, Object: "ClusterRole x", Alternatives: escalate("clusterroles"),
			Cause: "write ClusterRole x, which aggregates other ClusterRoles, so the API server requires all permissions",
		})},
		{"36 a Role without rules", rbacObject(t, "Role", "ns", ""), []Need{role}},
		{"57 a binding of a role that does not exist", rbacObject(t, "RoleBinding", "ns", "roleRef: {kind: Role, name: r}"), []Need{
			onX("ns", rbacv1.GroupName, "rolebindings", "RoleBinding ns/x", "apply RoleBinding ns/x", "create", "patch", "get"), {
				Namespace: "ns", Object: "RoleBinding ns/x", Cause: `bind Role "r", which does not exist, through RoleBinding ns/x`,
				Rules: []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "roles", "r")},
			},
		}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, onlyNeeds(t, nothingLive, row.step)) })
	}
}

func TestAllWritesAreRequestedByName(t *testing.T) {
	csv := "spec: {install: {strategy: deployment, spec: {deployments: [{name: x}]}}}"
	for _, n := range onlyNeeds(t, nothingLive, object(t, "operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", csv),
		object(t, "v1", "Secret", "ns", ""), rbacObject(t, "Role", "ns", ""), rbacObject(t, "ClusterRoleBinding", "", "roleRef: {kind: ClusterRole, name: r}")) {
		for _, rule := range n.Rules {
			require.NotEmpty(t, rule.ResourceNames, n.Cause)
			require.NotContains(t, rule.Verbs, "update", "server-side apply is a patch")
			require.NotContains(t, rule.Verbs, "list")
		}
	}
}

func TestABindingNeedsTheRulesOfItsRole(t *testing.T) {
	pods, nodes := may("get", "", "pods"), may("get", "", "nodes")
	live := func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		if ref.Name == "live" && (ref.Kind == "ClusterRole" || namespace == "ns") {
			return []rbacv1.PolicyRule{nodes}, nil
		}
		return nothingLive(ref, namespace)
	}
	const podsYAML = "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]"
	gathered := rbacObject(t, "ClusterRole", "", "aggregationRule: {clusterRoleSelectors: [{}]}")
	gathered.Object.SetName("gathered")
	planned := []step.Step{rbacObject(t, "Role", "ns", podsYAML), rbacObject(t, "ClusterRole", "", podsYAML), gathered}
	for _, row := range []struct {
		name, kind, namespace, ref string
		want                       []rbacv1.PolicyRule
		// unless contains the expected alternative; it is empty if want is the verb bind.
		unless []rbacv1.PolicyRule
	}{
		{"a planned Role", "RoleBinding", "ns", "kind: Role, name: x", []rbacv1.PolicyRule{pods}, []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "roles", "x")}},
		{"55 a planned ClusterRole in a namespace", "RoleBinding", "ns", "kind: ClusterRole, name: x", []rbacv1.PolicyRule{pods}, []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "clusterroles", "x")}},
		{"56 a planned ClusterRole in the cluster", "ClusterRoleBinding", "", "kind: ClusterRole, name: x", []rbacv1.PolicyRule{pods}, []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "clusterroles", "x")}},
		{"a live Role", "RoleBinding", "ns", "kind: Role, name: live", []rbacv1.PolicyRule{nodes}, []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "roles", "live")}},
		{"a live ClusterRole", "RoleBinding", "ns", "kind: ClusterRole, name: live", []rbacv1.PolicyRule{nodes}, []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "clusterroles", "live")}},
		{"a Role planned for another namespace", "RoleBinding", "other", "kind: Role, name: x", []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "roles", "x")}, nil},
		{"1.7-5 a ClusterRole that does not exist", "RoleBinding", "ns", "kind: ClusterRole, name: gone", []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "clusterroles", "gone")}, nil},
		{"a planned ClusterRole whose rules are gathered later", "ClusterRoleBinding", "", "kind: ClusterRole, name: gathered", []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "clusterroles", "gathered")}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			needs := onlyNeeds(t, live, append(planned, rbacObject(t, row.kind, row.namespace, "roleRef: {"+row.ref+"}"))...)
			last := needs[len(needs)-1]
			require.Equal(t, row.namespace, last.Namespace)
			require.Equal(t, row.want, last.Rules)
			require.Equal(t, row.unless, last.Alternatives)
			require.Equal(t, row.unless != nil, last.Granted)
		})
	}
}

func TestReportsInvalidObjectsWithTheOtherNeeds(t *testing.T) {
	never := func(step.Step) bool { return false }
	for name, row := range map[string]struct {
		step step.Step
		want string
	}{
		"an invalid Role":         {rbacObject(t, "Role", "ns", "rules: 1"), "decode Role ns/x"},
		"an invalid binding":      {rbacObject(t, "RoleBinding", "ns", "roleRef: 1"), "decode RoleBinding ns/x"},
		"an unsupported roleRef":  {rbacObject(t, "RoleBinding", "ns", "roleRef: {kind: Robot}"), `roleRef has unsupported kind "Robot"`},
		"33 a rule without verbs": {rbacObject(t, "Role", "ns", "rules: [{apiGroups: [''], resources: [pods]}]"), "has no verbs"},
		"45 URLs in a Role":       {rbacObject(t, "Role", "ns", "rules: [{verbs: [get], nonResourceURLs: [/metrics]}]"), "only for the whole cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			needs, err := NeedsOf([]step.Step{object(t, "v1", "ConfigMap", "ns", ""), row.step}, nothingLive, never)
			require.NoError(t, err)
			report := Examine(bounded, needs, granting())
			require.Len(t, report.Refused, 1)
			require.Equal(t, row.step.Object.GetKind()+" ns/x", report.Refused[0].Object)
			require.Contains(t, report.Refused[0].Message, row.want)
			require.True(t, report.Final())
			require.False(t, report.Clear())
			require.Len(t, report.Findings, 2)
		})
	}
}

func TestNotesRulesThatGrantNothing(t *testing.T) {
	steps := []step.Step{
		rbacObject(t, "Role", "ns", "rules: [{verbs: [get], apiGroups: ['', apps/v1], resources: [nodes, pods/*]}]"),
		rbacObject(t, "ClusterRole", "", "aggregationRule: {}"),
	}
	needs := onlyNeeds(t, nothingLive, steps...)
	report := Examine(bounded, needs, granting())
	require.Equal(t, []string{
		`Role ns/x: apiGroup "apps/v1" matches nothing: API groups do not include a version`,
		"Role ns/x: nodes is cluster-scoped: a namespaced rule grants no access to it",
		`Role ns/x: resource "pods/*" matches nothing: name the subresources, or use "*"`,
	}, report.Notes)
	require.Equal(t, []Refusal{{Object: "ClusterRole x", Message: "aggregationRule has no clusterRoleSelectors", Final: true}}, report.Refused)
}

func TestARoleThatCannotBeReadIsUnknown(t *testing.T) {
	broken := func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) { return nil, errors.New("no cache") }
	needs := onlyNeeds(t, broken, rbacObject(t, "RoleBinding", "ns", "roleRef: {kind: Role, name: r}"))
	report := Examine(scoped.Identity{}, needs, granting(may("*", rbacv1.GroupName, "rolebindings")))
	require.True(t, report.Clear())
	require.Len(t, report.Unknown, 1)
	require.Equal(t, "no cache", report.Unknown[0].Why)
}

func TestSkippedStepsHaveNoNeeds(t *testing.T) {
	crd := object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "")
	needs, err := NeedsOf([]step.Step{crd}, nothingLive, step.Step.IsCRD)
	require.NoError(t, err)
	require.Empty(t, needs)
}

// Another account writes the CustomResourceDefinition, so the API server does not ask whether this one may set the conversion.
func TestAConversionThatAnotherAccountWritesHasItsNeed(t *testing.T) {
	const served = "spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {namespace: ns, name: a}}}}}"
	crd := func(rest string) step.Step {
		return object(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", rest)
	}
	needsOf := func(steps ...step.Step) []Need {
		needs, err := NeedsOf(steps, nothingLive, step.Step.IsCRD)
		require.NoError(t, err)
		return needs
	}
	want := onX("", "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition x", "convert CustomResourceDefinition x", "patch")
	require.Equal(t, []Need{want}, needsOf(crd(served)))
	require.Empty(t, needsOf(crd("spec: {conversion: {strategy: None}}")))
	require.Equal(t, []Need{want}, needsOf(crd("spec: {conversion: [Webhook]}")), "what is not understood")

	csv := convertingCSV(t, nil)
	needs := needsOf(csv, crd(served))
	require.Equal(t, want, needs[0], "it is asked about first")
	require.Len(t, slices.DeleteFunc(needs, func(n Need) bool { return n.Cause != want.Cause }), 1)
	require.Contains(t, needsOf(csv), want, "the csv controller patches a CustomResourceDefinition that the plan does not contain")
}

// convertingCSV returns the step of a ClusterServiceVersion that converts the CustomResourceDefinition "x".
func convertingCSV(t *testing.T, config *operatorsv1alpha1.SubscriptionConfig) step.Step {
	s := object(t, "operators.coreos.com/v1alpha1", "ClusterServiceVersion", "ns", `
spec:
  installModes: [{type: AllNamespaces, supported: true}]
  customresourcedefinitions: {owned: [{name: x, version: v1, kind: X}]}
  webhookdefinitions: [{type: ConversionWebhook, generateName: c, deploymentName: d, admissionReviewVersions: [v1], sideEffects: None, conversionCRDs: [x]}]
  install: {strategy: deployment, spec: {deployments: [{name: d, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}}]}}`)
	s.Install = &step.Install{Targets: []string{rbac.ClusterScope}, Config: config}
	return s
}

// An invalid config must not hide what the account needs.
func TestNoNeedsAreKnownWithAnInvalidConfig(t *testing.T) {
	never := func(step.Step) bool { return false }
	annotated := func(issuer string) *operatorsv1alpha1.SubscriptionConfig {
		return &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{"cert-manager.io/inject-ca-from": issuer}}
	}
	_, err := NeedsOf([]step.Step{convertingCSV(t, annotated("kube-system/x"))}, nothingLive, never)
	require.EqualError(t, err, "spec.config of the Subscription is invalid for ClusterServiceVersion ns/x: webhooks and APIs cannot be served: "+
		`annotation cert-manager.io/inject-ca-from: "kube-system/x" is not in namespace "ns"`)
	require.ErrorAs(t, err, new(*ConfigError))
	needs, err := NeedsOf([]step.Step{convertingCSV(t, annotated("ns/x"))}, nothingLive, never)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(needs, func(n Need) bool { return n.Cause == "convert CustomResourceDefinition x" }))
}

func TestEscalateAndBindReplaceTheRules(t *testing.T) {
	need := Need{Namespace: "ns", Rules: []rbacv1.PolicyRule{may("get", "", "pods")}, Alternatives: []rbacv1.PolicyRule{may("escalate", rbacv1.GroupName, "roles", "x")}}
	for _, row := range []struct {
		name    string
		granted rbacv1.PolicyRule
		empty   bool
	}{
		{"an unrelated rule", may("get", "", "nodes"), false},
		{"52 writing roles", may("*", rbacv1.GroupName, "rolebindings"), false},
		{"the rules themselves", may("get", "", "pods"), true},
		{"53 escalate", may("escalate", rbacv1.GroupName, "roles"), true},
		{"escalate of this role", may("escalate", rbacv1.GroupName, "roles", "x"), true},
		{"escalate of another role", may("escalate", rbacv1.GroupName, "roles", "y"), false},
		{"all verbs include escalate", may("*", rbacv1.GroupName, "roles"), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			report := Examine(bounded, []Need{need}, granting(row.granted))
			require.Equal(t, row.empty, report.Empty())
		})
	}
}

func TestEachScopeIsReadOnce(t *testing.T) {
	asked := map[string]int{}
	granted := func(namespace string) rbac.Permissions {
		asked[namespace]++
		return rbac.Permissions{Namespace: namespace}
	}
	need := func(namespace string) Need {
		return Need{Namespace: namespace, Rules: []rbacv1.PolicyRule{may("get", "", "pods")}, Cause: "c"}
	}
	report := Examine(scoped.Identity{}, []Need{need("a"), need(rbac.ClusterScope), need("a")}, granted)
	require.Equal(t, map[string]int{"a": 1, "": 1}, asked)
	require.Len(t, report.Findings, 3)
	require.Equal(t, []Scope{{Rules: []rbacv1.PolicyRule{may("get", "", "pods")}}}, report.Scopes(), "a permission that is granted everywhere need not be granted again")
	report.Findings = append(report.Findings, Finding{Namespace: "a", Missing: []rbacv1.PolicyRule{may("get", "", "nodes")}})
	require.Equal(t, 2, count(report.Scopes()), "a rule is counted once per scope")
}
