package csv

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/recorded"
)

const (
	annotates    = "acct: patch ClusterServiceVersion t1/demo.v1.0.0"
	deploys      = "acct: apply Deployment t1/demo"
	refusedWrite = "acct: apply Deployment t1/demo (refused)"
	observes     = `installing: waiting for deployment demo to become ready: waiting for spec update of deployment "demo" to be observed...`
	completed    = "install strategy completed with no errors"
	toInstall    = "InstallWaiting"
)

// prepares returns the writes that precede the write of the Deployment, in order, followed by the given ones.
func prepares(more ...string) []string { return preparesOnly(append(reports(), more...)...) }

// preparesOnly returns the same writes if the account may not let the operator update its OperatorCondition.
func preparesOnly(more ...string) []string {
	return append([]string{annotates, "acct: apply ServiceAccount t1/demo", "acct: apply Role t1/demo.v1.0.0-demo-#", "acct: apply RoleBinding t1/demo.v1.0.0-demo-#"}, more...)
}

// removed returns the deletions of the roles and bindings of the demo's first version.
func removed() []string {
	return []string{"acct: delete RoleBinding t1/demo.v1.0.0-condition-#", "acct: delete RoleBinding t1/demo.v1.0.0-demo-#",
		"acct: delete Role t1/demo.v1.0.0-condition-#", "acct: delete Role t1/demo.v1.0.0-demo-#"}
}

// reports returns the writes that let the operator update its OperatorCondition.
func reports() []string {
	return []string{"acct: apply Role t1/demo.v1.0.0-condition-#", "acct: apply RoleBinding t1/demo.v1.0.0-condition-#"}
}

// fails returns the expected effect for a ClusterServiceVersion that fails before anything is written.
func fails(reason operatorsv1alpha1.ConditionReason, message string, unmet ...string) effect {
	return effect{phase: phaseFailed, reason: reason, message: message, moves: string(reason) + "!", unmet: unmet}
}

// installs returns the expected effect for an install that has just written its Deployment.
func installs(moves string, writes ...string) effect {
	return effect{phase: phaseInstalling, reason: reasonWaiting, message: observes, moves: moves, writes: writes, after: 5 * time.Minute}
}

// runs returns the expected effect for an installed operator.
func runs(moves, message string, writes ...string) effect {
	return effect{phase: phaseSucceeded, reason: reasonInstallSuccessful, message: message, moves: moves, writes: writes}
}

// refuses returns the expected outcome of an install when the account is not allowed to write its Deployment.
func refuses(message string, writes ...string) effect {
	return effect{phase: phaseFailed, reason: reasonNoRetry, message: "install strategy failed: " + message,
		moves: "InstallComponentFailedNoRetry!", writes: writes}
}

func (o effect) with(edit func(*effect)) effect {
	edit(&o)
	return o
}

func spec(edit func(*operatorsv1alpha1.ClusterServiceVersionSpec)) change {
	return editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { edit(&c.Spec) })
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// withoutDeployments returns the permissions that the demo itself needs, and the permissions to write its objects
// except Deployments.
func withoutDeployments() []rbacv1.PolicyRule {
	write := []string{"get", "create", "patch", "delete"}
	return []rbacv1.PolicyRule{rule("", "serviceaccounts", write...), rule(rbacv1.GroupName, "roles", write...), rule(rbacv1.GroupName, "rolebindings", write...),
		rule("operators.coreos.com", "clusterserviceversions", "get", "patch"), rule("", "pods", "get")}
}

var quota = apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "demo", errors.New("exceeded quota"))

const quotaMessage = `apply Deployment t1/demo: deployments.apps "demo" is forbidden: exceeded quota`

// limited makes the API server refuse to write the Deployment.
func limited(by error) change {
	return func(w *world) {
		w.Refuse("acct: try Deployment t1/demo", by)
		w.Refuse(deploys, by)
	}
}

func TestTheGroupAndTheContentAreCheckedFirst(t *testing.T) {
	t.Parallel()
	api := operatorsv1alpha1.APIServiceDescription{Name: "widgets", Group: "widgets.example.com", Version: "v1", Kind: "Widget", DeploymentName: "none", ContainerPort: 443}
	checkRows(t, []row{
		{"no OperatorGroup", []change{without(group("og", ""))}, fails("NoOperatorGroup", "csv in namespace with no operatorgroups")},
		{"two OperatorGroups", []change{with(group("more", "acct"))}, fails("TooManyOperatorGroups", "csv created in namespace with multiple operatorgroups, can't pick one automatically")},
		{"an OperatorGroup that selects no namespaces", []change{selecting("b")}, fails("NoTargetNamespaces", "no targetNamespaces are matched operatorgroups namespace selection")},
		{"an install mode that is not supported", []change{with(group("og", "acct"))}, fails("UnsupportedOperatorGroup", "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces")},
		{"install modes that are repeated", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.InstallModes = slices.Repeat(s.InstallModes[:1], 2)
		})},
			fails("InvalidInstallModes", "InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace true}]")},
		{"a strategy without a valid name", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name = "A"
		})},
			fails("InvalidInstallStrategy", `install strategy invalid: deployment name "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end `+
				`with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)},
		{"a webhook of an unknown type", []change{hooked("x")}, fails("InvalidWebhookDescription", `webhook type "x" is unknown: webhook "a.example.com"`,
			`x a.example.com: PresentNotSatisfied webhook type "x" is unknown: webhook "a.example.com"`)},
		{"an API of a Deployment that does not exist", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.APIServiceDefinitions.Owned = append(s.APIServiceDefinitions.Owned, api)
		})},
			fails("APIServiceInstallFailed", `APIService "v1.widgets.example.com": deployment "none" is not part of the install strategy`, "APIService v1.widgets.example.com: DeploymentNotFound ")},
		{"an OperatorGroup that is created later", []change{without(group("og", "")), settled, with(group("og", "acct", "t1"))},
			installs(toInstall, prepares(deploys)...)},
		{"a copy", []change{editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "x"}
		})}, effect{}},
		{"a copy whose label was removed", []change{func(w *world) {
			w.options.IsCopy = func(obj client.Object) bool { return obj.GetName() == w.csv.Name }
		}}, effect{}},
		{"a status that only looks like a copy's", []change{editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { c.Status.Reason = operatorsv1alpha1.CSVReasonCopied })},
			installs(toInstall, prepares(deploys)...)},
	})
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	none := func(reason operatorsv1alpha1.ConditionReason, message string) effect {
		return effect{phase: phasePending, reason: reason, message: message, moves: string(reason), unmet: []string{"ServiceAccount demo: NotPresent Service account does not exist"}}
	}
	enrolled := scoped.NotEnrolled(scoped.Account{Namespace: "t1", Name: "acct"})
	checkRows(t, []row{
		{"no account is named", []change{with(group("og", "", "t1"))},
			none("NoAccount", "OperatorGroup t1/og does not name a ServiceAccount (spec.serviceAccountName) and no default account is configured for its namespace; nothing can be installed")},
		{"the account does not exist", []change{without(serviceAccount("acct"))}, none("ServiceAccountNotFound", "ServiceAccount acct not found")},
		{"the account is not enrolled", []change{func(w *world) { w.own = enrolled }}, none("AccountNotEnrolled", enrolled.Message)},
		{"the account of a version whose author may use any is not enrolled", []change{func(w *world) { w.own = enrolled }, editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelAnyAccount: ""}
		})}, none("AccountNotEnrolled", enrolled.Message)},
		{"the account is enrolled, but its token is refused", []change{func(w *world) { w.unopened = enrolled }},
			effect{failed: "annotate ClusterServiceVersion t1/demo.v1.0.0: the API server has not observed the account's enrollment yet: " + enrolled.Message}},
		{"the account is deleted after the install", []change{installed, without(serviceAccount("acct"))}, runs("", completed+"; ServiceAccountNotFound: ServiceAccount acct not found")},
		{"the account is replaced, but the cache is outdated", []change{func(w *world) {
			w.Before("remit: list OperatorGroupList", func() { w.Put(group("og", "boss", "t1"), serviceAccount("boss")) })
		}}, effect{failed: `annotate ClusterServiceVersion t1/demo.v1.0.0: the account of namespace "t1" changed from t1/acct to t1/boss`}},
	})
}

// A finalizer can delay the deletion of an OperatorGroup for any time. Meanwhile, users could otherwise install what they want.
func TestNothingIsInstalledThroughAnOperatorGroupThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	const message = "OperatorGroup t1/og is being deleted; nothing can be installed"
	changed := spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "evil.test/demo:1"
	})
	stops := effect{phase: phasePending, reason: "NoAccount", message: message, moves: "NoAccount"}
	checkRows(t, []row{
		{"an install", []change{groupDeleted}, stops.with(func(e *effect) {
			e.unmet = []string{"ServiceAccount demo: NotPresent Service account does not exist"}
		})},
		{"an install that has begun", []change{settled, groupDeleted}, stops},
		{"an installed operator", []change{installed, groupDeleted}, runs("", completed+"; NoAccount: "+message)},
		{"an installed operator that is changed", []change{installed, groupDeleted, changed}, stops.with(func(e *effect) { e.moves = "ComponentUnhealthy! NoAccount" })},
		{"an operator whose Deployment was deleted", []change{installed, groupDeleted, without(deploymentOf("demo"))},
			stops.with(func(e *effect) { e.moves = "ComponentUnhealthy! NoAccount" })},
		{"an install, but the cache is outdated", []change{func(w *world) {
			w.Before("remit: list OperatorGroupList", func() { groupDeleted(w) })
		}}, effect{failed: "annotate ClusterServiceVersion t1/demo.v1.0.0: " + message}},
		{"an operator whose CSV is deleted", []change{installed, groupDeleted, func(w *world) { w.Delete(w.csv.DeepCopy()) }}, effect{}},
	})
}

func TestReportsMetRequirements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.NativeAPIs = []metav1.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "Thing"}}
		strategy := &s.InstallStrategy.StrategySpec
		strategy.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "demo", Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		}}}
	})(w)
	settled(w)
	var got []string
	for _, r := range w.csv.Status.RequirementStatus {
		got = append(got, r.Kind+" "+r.Name+": "+string(r.Status)+" "+r.Message)
		for _, d := range r.Dependents {
			got = append(got, string(d.Status)+" "+d.Message)
		}
	}
	require.Subset(t, got, []string{
		"CustomResourceDefinition things.example.com: Present CRD is present and Established condition is true",
		"Thing : Present Native API exists",
		`Satisfied namespaced rule:{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`,
		`Satisfied cluster rule:{"verbs":["get"],"apiGroups":[""],"resources":["nodes"]}`,
	})
}

func TestRequirementsOfEachKind(t *testing.T) {
	t.Parallel()
	crd := func(edit func(*apiextensionsv1.CustomResourceDefinition)) change {
		return func(w *world) { recorded.Edit(w.Server, things(), edit) }
	}
	unmet := func(what string) effect {
		return effect{phase: phasePending, reason: reasonRequirementsNotMet, message: "one or more requirements couldn't be found", moves: "RequirementsNotMet",
			unmet: []string{what}, writes: prepares()}
	}
	checkRows(t, []row{
		{"an owned CustomResourceDefinition", []change{without(things())}, unmet("CustomResourceDefinition things.example.com: NotPresent CRD is not present")},
		{"a version of the CustomResourceDefinition", []change{crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v0" })},
			unmet("CustomResourceDefinition things.example.com: NotPresent CRD version not served")},
		{"an established CustomResourceDefinition", []change{crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil })},
			unmet("CustomResourceDefinition things.example.com: PresentNotAvailable CRD is present but the Established condition is False (not available)")},
		{"a required CustomResourceDefinition", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "others.example.com", Version: "v1", Kind: "Other"}}
		})}, unmet("CustomResourceDefinition others.example.com: NotPresent CRD is not present")},
		{"a native API", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.NativeAPIs = []metav1.GroupVersionKind{{Group: "x.io", Version: "v1", Kind: "X"}}
		})},
			unmet("X : NotPresent Native API does not exist")},
		{"a required APIService", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.APIServiceDefinitions.Required = []operatorsv1alpha1.APIServiceDescription{{Group: "x.io", Version: "v1", Kind: "X"}}
		})}, unmet("APIService v1.x.io: NotPresent APIService does not serve the kind")},
		{"a minimum version of Kubernetes", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) { s.MinKubeVersion = "1.99.0" })},
			unmet("ClusterServiceVersion demo.v1.0.0: NotPresent CSV version requirement not met: minKubeVersion (1.99.0) > server version (v1.36.0)")},
		{"a requirement that is met later", []change{without(things()), settled, with(things())}, installs(toInstall, deploys)},
	})
}

func TestPermissionsBoundTheInstall(t *testing.T) {
	t.Parallel()
	const pods = `in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`
	const deployment = `in namespace t1 {apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["demo"], verbs: ["create", "get", "patch"]}`
	const uncovered = "ServiceAccount acct: PresentNotSatisfied Policy rule not satisfied for service account: "
	const ownAccount = `deployment "demo" may not run as ServiceAccount "acct": it is the account that bounds this install`
	unpermitted := refuses("ServiceAccount t1/acct is missing permissions: "+deployment, preparesOnly()...).with(func(o *effect) { o.unmet = []string{uncovered + deployment} })
	checkRows(t, []row{
		{"an account without the operator's permissions", []change{may(rule("", "serviceaccounts", "get", "create", "patch"))},
			effect{phase: phasePending, reason: reasonRequirementsNotMet, message: "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: " + pods,
				moves: "RequirementsNotMet", unmet: []string{"ServiceAccount demo: NotPresent Service account does not exist", uncovered + pods + "; " + deployment}}},
		{"an account that may not write Deployments", []change{may(withoutDeployments()...)}, unpermitted},
		{"a permission that is granted later", []change{may(withoutDeployments()...), settled, may(append(withoutDeployments(), rule("apps", "deployments", "*"))...)},
			installs(toInstall, deploys)},
		{"an operator that would run as the account", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = "acct"
		})}, refuses(ownAccount, prepares()...).with(func(o *effect) { o.unmet = []string{uncovered + ownAccount} })},
		{"a status that claims to be ready for the install", []change{may(withoutDeployments()...), phase(phaseInstallReady, reasonRequirementsMet)},
			unpermitted.with(func(o *effect) { o.moves = "InstallComponentFailedNoRetry!" })},
		{"a status that claims to be installed", []change{may(withoutDeployments()...), phase(phaseSucceeded, reasonInstallSuccessful)},
			unpermitted.with(func(o *effect) {
				o.moves = "ComponentUnhealthy! InstallComponentFailedNoRetry!"
			})},
	})
}

func TestInstallsThatFail(t *testing.T) {
	t.Parallel()
	const theirs = "Deployment t1/demo already exists and was not created by this install: it does not have the lineage label of package \"demo\" in namespace \"t1\"; " +
		"it was not changed: delete it if nothing else needs it"
	down := errors.New("connection refused")
	failed := effect{phase: phaseFailed, reason: reasonComponentFailed, message: "install strategy failed: apply Deployment t1/demo: connection refused",
		moves: "InstallComponentFailed!", writes: prepares(refusedWrite), after: time.Second}
	late := func(d time.Duration) func(*effect) { return func(o *effect) { o.after = d } }
	checkRows(t, []row{
		{"a quota", []change{limited(quota)}, refuses(quotaMessage, prepares(refusedWrite)...).with(late(time.Second))},
		{"a quota that remains is checked rarely", []change{limited(quota), settled, passing(time.Minute)},
			refuses(quotaMessage).with(late(time.Minute)).with(func(o *effect) { o.moves = "" })},
		{"a policy without a reason", []change{limited(policy)}, refuses("apply Deployment t1/demo: "+policy.Error(), prepares(refusedWrite)...).with(late(time.Second))},
		{"a webhook without a code", []change{limited(hook)}, refuses("apply Deployment t1/demo: "+hook.Error(), prepares(refusedWrite)...).with(late(time.Second))},
		{"a policy that was removed", []change{limited(policy), settled, limited(nil)}, installs(toInstall, deploys)},
		{"a quota that was raised", []change{limited(quota), settled, limited(nil)}, installs(toInstall, deploys)},
		{"a refusal although the dry run was accepted is retried with delays", []change{refusing(deploys, quota)},
			refuses(quotaMessage, prepares(refusedWrite)...).with(late(time.Second))},
		{"and the second retry is delayed", []change{refusing(deploys, quota), settled}, refuses(quotaMessage).with(late(time.Second)).with(func(o *effect) { o.moves = "" })},
		{"the end of a later refusal takes effect immediately", []change{refusing(deploys, quota), settled, limited(quota), settled, limited(nil)},
			installs(toInstall, deploys)},
		{"a refusal after an accepted dry run is delayed again", []change{refusing(deploys, quota), settled, limited(quota), settled, limited(nil), refusing(deploys, quota)},
			refuses(quotaMessage, refusedWrite).with(late(time.Second)).with(func(o *effect) {
				o.moves = "InstallComponentFailedNoRetry!"
			})},
		{"a dry run without a result is repeated", []change{limited(quota), settled, refusing("acct: try Deployment t1/demo", noDryRun)},
			refuses(quotaMessage).with(late(time.Second)).with(func(o *effect) { o.moves = "" })},
		{"and then the write is tried", []change{limited(quota), settled, limited(nil), refusing("acct: try Deployment t1/demo", noDryRun), passing(time.Second)},
			installs(toInstall, deploys)},
		{"with growing delays", []change{limited(quota), settled, passing(time.Minute), refusing("acct: try Deployment t1/demo", noDryRun), settled},
			refuses(quotaMessage).with(late(time.Minute)).with(func(o *effect) { o.moves = "" })},
		{"an API server that is down", []change{refusing(deploys, down)}, failed},
		{"an API server that is down again", []change{refusing(deploys, down), settled, passing(time.Minute)},
			failed.with(func(o *effect) {
				o.moves, o.writes, o.after = "InstallComponentFailed!", []string{refusedWrite}, time.Minute
			})},
		{"a Deployment that another client creates in the meantime", []change{refusing(deploys, apierrors.NewApplyConflict(
			[]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas"}}, "conflict with other"))},
			refuses("apply Deployment t1/demo: conflict with other; to recreate it without the edits: kubectl delete deployment demo -n t1", prepares(refusedWrite)...).with(late(time.Second))},
		{"a Deployment that a user created", []change{with(deploymentOf("demo"))}, collides(theirs, noServiceAccount)},
		{"a role that is refused", []change{refusing("acct: apply Role t1/demo.v1.0.0-demo-#", quota)}, effect{
			phase: phasePending, reason: reasonRequirementsNotMet, after: time.Second, moves: "RequirementsNotMet",
			message: `one or more requirements couldn't be found: apply Role t1/demo.v1.0.0-demo-#: deployments.apps "demo" is forbidden: exceeded quota`,
			unmet:   []string{`ServiceAccount demo: PresentNotSatisfied Policy rule not satisfied for service account: in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`},
			writes:  append(prepares()[:2], slices.Repeat([]string{"acct: apply Role t1/demo.v1.0.0-demo-# (refused)"}, 3)...),
		}},
		{"a Deployment that is not ready in time", []change{settled, passing(5 * time.Minute)}, fails("InstallCheckFailed", "install timeout: "+strings.TrimPrefix(observes, "installing: "))},
		{"a Deployment that is ready after the timeout", []change{settled, passing(5 * time.Minute), settled, available("demo")}, runs("InstallSucceeded", completed)},
		{"a Deployment that is stuck", []change{settled, stuckAt("demo")}, fails("InstallCheckFailed", `install failed: waiting for deployment demo to become ready: deployment "demo" exceeded its progress deadline`)},
	})
}

func TestInstalls(t *testing.T) {
	t.Parallel()
	outside := func(verb, namespace string) []string {
		return []string{"acct: " + verb + " RoleBinding " + namespace + "/demo.v1.0.0-demo-#", "acct: " + verb + " Role " + namespace + "/demo.v1.0.0-demo-#"}
	}
	checkRows(t, []row{
		{"the operator's ServiceAccount, role, binding and Deployment", nil, installs(toInstall, prepares(deploys)...)},
		{"an operator that is available", []change{settled, available("demo")}, runs("InstallSucceeded", completed)},
		{"an operator that is installed", []change{installed}, runs("", completed)},
		{"roles in each target", []change{targets("t2")}, installs(toInstall, slices.Concat([]string{annotates, "acct: apply ServiceAccount t1/demo",
			"acct: apply Role t1/demo.v1.0.0-demo-#", outside("apply", "t2")[1], outside("apply", "t2")[1], // sealed first
			"acct: apply RoleBinding t1/demo.v1.0.0-demo-#", outside("apply", "t2")[0]}, reports(), []string{deploys})...)},
		{"roles in a target that is removed", []change{targets("t2", "t3"), installed, targets("t2")},
			installs("ComponentUnhealthy! "+toInstall, slices.Concat([]string{annotates}, outside("delete", "t3"), []string{deploys})...)},
		{"nothing is reported in the first seconds of its InstallPlan", []change{planInProgress, created, passing(kit.SettleTime / 2)}, effect{after: kit.SettleTime / 2}},
		{"nothing is reported if the Deployment is available within seconds", []change{created, settled, passing(kit.SettleTime / 2), available("demo")}, runs("InstallSucceeded", completed)},
		{"nothing is reported while the Deployment may become available within seconds", []change{created, settled, passing(kit.SettleTime / 2)}, effect{after: kit.SettleTime / 2}},
		{"a problem is reported at once", []change{created, without(things())}, effect{phase: phasePending, reason: reasonRequirementsNotMet, moves: "RequirementsNotMet",
			message: "one or more requirements couldn't be found", unmet: []string{"CustomResourceDefinition things.example.com: NotPresent CRD is not present"}, writes: prepares()}},
		{"nothing while its InstallPlan is in progress", []change{planInProgress, passing(kit.SettleTime)},
			effect{phase: phasePending, reason: reasonRequirementsUnknown, message: "requirements not yet checked: InstallPlan install-x is in progress", moves: "RequirementsUnknown"}},
		{"a Deployment that was deleted", []change{installed, without(deploymentOf("demo"))}, installs("ComponentUnhealthy! "+toInstall, deploys)},
		{"a label of a Deployment that was removed", []change{spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Label = map[string]string{"release": "one"}
		}), installed, func(w *world) {
			recorded.Edit(w.Server, deploymentOf("demo"), func(d *appsv1.Deployment) { delete(d.Labels, "release") })
		}}, runs("ComponentUnhealthy! InstallSucceeded", completed, deploys)},
		// The binding to the Role still exists, so the Role is first written in sealed form and then with its rules.
		{"a role that was deleted", []change{installed, withoutRoles},
			runs("", completed, slices.Concat(slices.Repeat([]string{"acct: apply Role t1/demo.v1.0.0-demo-#"}, 2), slices.Repeat(reports()[:1], 2))...)},
		{"a role whose deletion another user blocks does not affect other targets", []change{targets("t1", "t2"), installed, keptInDeletion("t2")},
			runs("", completed+"; the operator gets no permissions in namespace t2: Role t2/demo.v1.0.0-demo-# is being deleted").with(func(o *effect) { o.after = minDelay })},
		{"a role whose deletion another user blocks does not prevent writing a Deployment", []change{targets("t1", "t2"), installed, keptInDeletion("t2"), without(deploymentOf("demo"))},
			installs("ComponentUnhealthy! InstallWaiting", deploys)},
		{"a role whose deletion another user blocks in the operator's own namespace is reported", []change{targets("t1", "t2"), installed, keptInDeletion("t1"), without(deploymentOf("demo"))},
			effect{phase: phasePending, reason: reasonRequirementsNotMet, message: messageNotMet + ": Role t1/demo.v1.0.0-demo-# is being deleted",
				moves: "ComponentUnhealthy! RequirementsNotMet", after: minDelay}},
		{"nothing after its CustomResourceDefinition was deleted", []change{installed, without(things())},
			fails("RequirementsNotMet", "requirements not met", "CustomResourceDefinition things.example.com: NotPresent CRD is not present")},
		{"nothing after the CustomResourceDefinition was recreated", []change{installed, without(things()), settled, with(things())},
			runs("InstallSucceeded", completed)},
		{"nothing after its OperatorGroup was deleted", []change{installed, without(group("og", ""))}, fails("NoOperatorGroup", "csv in namespace with no operatorgroups").with(func(o *effect) {
			o.after = excess.DefaultGrace // then, the operator loses its permissions
		})},
		{"nothing while a Deployment is scaled to 0", []change{installed, func(w *world) {
			recorded.Edit(w.Server, deploymentOf("demo"), func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(0)) })
		}}, installs("ComponentUnhealthy! " + toInstall).with(func(o *effect) {
			o.message = `installing: waiting for deployment demo to become ready: deployment "demo" is scaled to 0 replicas; to scale it up, run: kubectl scale deployment demo -n t1 --replicas=1`
		})},
	})
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	second := func(changes ...change) []change {
		return append([]change{installed, next, settled, as("demo.v2.0.0")}, changes...)
	}
	v2 := func(writes []string) []string {
		out := slices.Clone(writes)
		for i := range out {
			out[i] = strings.ReplaceAll(out[i], "v1.0.0", "v2.0.0")
		}
		return out
	}
	checkRows(t, []row{
		{"the old version is being replaced", []change{installed, next}, effect{phase: phaseReplacing, reason: reasonBeingReplaced, message: "being replaced by csv: demo.v2.0.0", moves: "BeingReplaced"}},
		{"a version that an InstallPlan created is not replaced by one that a user created", []change{planned, installed, next}, runs("", completed)},
		{"the new version waits until the old one is being replaced", []change{installed, next, as("demo.v2.0.0"), passing(kit.SettleTime)}, effect{phase: phasePending, reason: reasonRequirementsUnknown, moves: "RequirementsUnknown",
			message: "requirements not yet checked: ClusterServiceVersion demo.v1.0.0 is not being replaced yet"}},
		{"the new version is installed", second(), installs(toInstall, v2(prepares(deploys))...)},
		{"the new version removes the roles of the old one", second(settled, available("demo")),
			runs("InstallSucceeded", completed, removed()...)},
		{"the new version does not remove roles without a proof", second(settled, available("demo"), unproven("t1")),
			runs("InstallSucceeded", completed+"; RoleBinding t1/demo.v2.0.0-demo-# already exists and was not created by this install: it has the lineage label of package \"demo\" in namespace \"t1\", "+
				"but it has no proof that Remit created it (annotation remit.dev/proof); it was not changed: delete it if nothing else needs it, "+
				"or uninstall the operator that its labels olm.owner and olm.owner.namespace identify")},
		{"the old version is deleted", second(installed, as("demo.v1.0.0")), effect{moves: "Replaced", writes: []string{"acct: delete ClusterServiceVersion t1/demo.v1.0.0"}}},
		{"the old version stays until the new one has succeeded", second(settled, available("demo"), as("demo.v1.0.0")),
			effect{phase: phaseReplacing, reason: reasonBeingReplaced, message: "being replaced by csv: demo.v2.0.0"}},
		{"the old version stays while the new one only claims to have succeeded", []change{installed, next, as("demo.v2.0.0"), phase(phaseSucceeded, reasonInstallSuccessful), as("demo.v1.0.0")},
			effect{phase: phaseReplacing, reason: reasonBeingReplaced, message: "being replaced by csv: demo.v2.0.0", moves: "BeingReplaced"}},
	})
}

func TestRemovals(t *testing.T) {
	t.Parallel()
	const role = "acct: delete Role t2/demo.v1.0.0-demo-#"
	const binding = "acct: delete RoleBinding t2/demo.v1.0.0-demo-#"
	left := func(kind, why string) string {
		return "event: Warning LeftBehind on " + kind + " t2/demo.v1.0.0-demo-#: the object belonged to ClusterServiceVersion t1/demo.v1.0.0, which was deleted; to clean up, run: " + why
	}
	const deleteRole, deleteBinding = "kubectl delete role demo.v1.0.0-demo-# -n t2", "kubectl delete rolebinding demo.v1.0.0-demo-# -n t2"
	forbiddenRole := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, "x", errors.New("no"))
	leftBehind := func(why string) []string {
		return []string{left("RoleBinding", deleteBinding), left("Role", deleteRole),
			"event: Warning LeftBehind on ClusterServiceVersion t1/demo.v1.0.0: objects of the deleted ClusterServiceVersion remain (" + why + "); to clean up, run: " + deleteBinding + "; " + deleteRole}
	}
	removed := func(changes ...change) []change {
		return slices.Concat([]change{targets("t2"), installed}, changes, []change{deletedNow})
	}
	stays := runs("", completed)
	checkRows(t, []row{
		{"objects are removed as the account, bindings first, then the finalizer", removed(), effect{writes: []string{binding, role, annotates}}},
		{"objects without a proof are kept", removed(unproven("t2")), effect{writes: []string{annotates}}},
		{"objects of an earlier namespace with the same name are kept", removed(recreated), effect{writes: []string{annotates}}},
		{"objects are left behind without an account", removed(without(serviceAccount("acct"))), effect{writes: append(leftBehind("ServiceAccount acct not found"), "remit: patch ClusterServiceVersion t1/demo.v1.0.0")}},
		{"removals wait for permissions", removed(may(rule("", "pods", "get"))), stays.with(func(o *effect) {
			o.after = maxAwaited
			o.writes = leftBehind(
				`ServiceAccount t1/acct is missing permissions: in namespace t2 {apiGroups: ["rbac.authorization.k8s.io"], resources: ["roles"], resourceNames: ["demo.v1.0.0-demo-#"], verbs: ["delete"]}`)
		})},
		{"removals are retried after a refusal", removed(refusing(role, forbiddenRole)), stays.with(func(o *effect) {
			o.failed = `delete Role t2/demo.v1.0.0-demo-#: roles.rbac.authorization.k8s.io "x" is forbidden: no`
			o.writes = []string{binding, role + " (refused)", left("Role", deleteRole), "event: Warning LeftBehind on ClusterServiceVersion t1/demo.v1.0.0: objects of the deleted ClusterServiceVersion remain (" + o.failed + "); to clean up, run: " + deleteRole}
		})},
		{"objects of an operator that was labeled as a copy are removed", removed(editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Labels = map[string]string{names.LabelCopiedFrom: "x"}
		})),
			effect{writes: []string{binding, role, annotates}}},
	})
}

func TestCallers(t *testing.T) {
	t.Parallel()
	const configuration = "ValidatingWebhookConfiguration a.example.com-#"
	const stop = "kubectl delete deployment demo -n t1 --cascade=foreground"
	notDeleted := "delete Deployment t1/demo: " + quota.Error()
	const conversion = "acct: patch CustomResourceDefinition things.example.com"
	serving := []string{"acct: apply Role t1/demo-service-cert", "acct: apply RoleBinding t1/demo-service-cert"}
	certified := []string{"acct: apply Service t1/demo-service", "acct: apply Secret t1/demo-service-cert", deploys}
	absent := `ValidatingAdmissionWebhook a.example.com: NotPresent Webhook is not present: it will be created when deployment "demo" is ready`
	admission := hooked(operatorsv1alpha1.ValidatingAdmissionWebhook)
	rotated := func(more ...change) []change {
		return append([]change{admission, installed, passing(600 * day)}, more...)
	}
	checks := func(d time.Duration) func(*effect) { return func(o *effect) { o.after = d } }
	checkRows(t, []row{
		{"a webhook's certificate comes before the Deployment", []change{admission},
			installs(toInstall, slices.Concat(preparesOnly(serving...), reports(), certified)...).with(func(o *effect) { o.unmet = []string{absent} })},
		{"a webhook is configured when the Deployment is ready", []change{admission, settled, available("demo")},
			runs("InstallSucceeded", completed, "acct: apply "+configuration).with(checks(secretCheckInterval))},
		{"an old certificate gets a successor, which callers trust before it is used", rotated(), runs("", completed, "acct: apply Service t1/demo-service", "acct: apply "+configuration,
			"acct: patch Secret t1/demo-service-cert").with(checks(10 * time.Second))},
		{"the successor is used when callers trust it", rotated(settled, passing(10*time.Second)),
			installs(toInstall, "acct: patch Secret t1/demo-service-cert", deploys)},
		{"the predecessor is removed when no Pod uses it", rotated(settled, passing(10*time.Second), settled, available("demo")),
			runs("InstallSucceeded", completed, "acct: apply "+configuration, "acct: patch Secret t1/demo-service-cert", "acct: apply Service t1/demo-service").with(checks(secretCheckInterval))},
		{"a webhook is removed with its operator, before the finalizer", []change{admission, installed, func(w *world) { w.Delete(w.csv) }},
			effect{writes: []string{"acct: delete " + configuration, annotates}}},
		{"a webhook is removed while its namespace is terminating", []change{admission, installed, terminating}, runs("", completed, "acct: delete "+configuration)},
		{"a webhook stays if the OperatorGroup of its terminating namespace was deleted first", []change{admission, installed, terminating, without(group("og", ""))}, runs("", completed)},
		{"a webhook whose check cannot be completed", []change{admission, may(withoutDeployments()...), refusing("remit: review create things", errors.New("down"))},
			effect{failed: `cannot determine whether ServiceAccount t1/acct may intercept requests through webhook "a.example.com": an operator may intercept only what its account can read and write: request an access review: down`}},
		{"a conversion is set when the Deployment is ready", []change{converts, settled, available("demo")},
			runs("InstallSucceeded", completed, conversion).with(checks(secretCheckInterval))},
		{"a conversion is reset after the operator has stopped", []change{converts, installed, func(w *world) { w.Delete(w.csv) }}, effect{writes: []string{
			"acct: delete Deployment t1/demo", "event: Normal Stopping on ClusterServiceVersion t1/demo.v1.0.0: deleted Deployment t1/demo: conversions will be reset when its Pods have terminated, " +
				"so that the operator does not overwrite objects that are no longer converted",
			"acct: delete ClusterRoleBinding demo.v1.0.0-#", "acct: delete ClusterRole demo.v1.0.0-#", conversion, annotates}}},
		{"a conversion stays while the operator may not be stopped", []change{converts, installed, refusing("acct: delete Deployment t1/demo", quota), func(w *world) { w.Delete(w.csv) }},
			runs("", completed, "acct: delete Deployment t1/demo (refused)", "acct: delete ClusterRoleBinding demo.v1.0.0-#", "acct: delete ClusterRole demo.v1.0.0-#",
				"event: Warning LeftBehind on Deployment t1/demo: the object belonged to ClusterServiceVersion t1/demo.v1.0.0, which was deleted; to clean up, run: "+stop,
				"event: Warning LeftBehind on ClusterServiceVersion t1/demo.v1.0.0: objects of the deleted ClusterServiceVersion remain ("+notDeleted+"); to clean up, run: "+stop).with(func(o *effect) { o.failed = notDeleted })},
		{"an API is registered when the Deployment is ready", []change{serves, settled, available("demo")},
			effect{phase: phaseInstalling, reason: reasonWaiting, message: "installing: APIService v1.widgets.example.com is not available: missing condition",
				writes: []string{"acct: apply APIService v1.widgets.example.com"}, after: 5 * time.Minute}},
		{"an API's bindings come before the Deployment", []change{serves}, installs(toInstall, slices.Concat(preparesOnly(serving...),
			[]string{"acct: apply ClusterRoleBinding demo-service-system:auth-delegator-#", "acct: apply RoleBinding kube-system/demo-service-auth-reader-#"}, reports(), certified)...)},
		{"an API of another owner", []change{serves, served}, fails("OwnerConflict",
			`unable to adopt APIService: pre-existing APIService v1.widgets.example.com is not adoptable: it does not have the lineage label of package "demo" in namespace "t1"`,
			"ServiceAccount demo: NotPresent Service account does not exist", "Secret demo-service-cert: NotPresent The certificate has not been issued yet").with(checks(secretCheckInterval))},
	})
}
