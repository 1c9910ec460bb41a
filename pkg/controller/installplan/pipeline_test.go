package installplan

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/test/env/recorded"
)

const (
	writesReport = "remit: apply ConfigMap ns/remit-report-install-#"
	deploys      = "acct: apply Deployment ns/demo"
)

// steps lists the writes of the demo's plan, in order.
func steps() []string {
	return []string{
		"acct: apply ClusterServiceVersion ns/demo.v1.0.0", "acct: apply CustomResourceDefinition things.example.com", "acct: apply ServiceAccount ns/demo",
		"acct: apply ConfigMap ns/defaults", "acct: apply Role ns/demo.v1.0.0-demo-#", "acct: apply RoleBinding ns/demo.v1.0.0-demo-#",
	}
}

// paused returns the expected effect for a plan that waits before its steps are known.
func paused(reason, message string) effect {
	return effect{phase: "Installing", installed: "False " + reason, message: message}
}

// fails returns the expected effect for a plan that fails before anything is written.
func fails(reason, message string) effect {
	return effect{phase: "Failed", installed: "False " + reason, message: message,
		writes: []string{"event: Warning " + reason + " on InstallPlan ns/install-#: " + message}}
}

// rejected returns the expected effect for a plan that the API server refuses in a dry run.
func rejected(message string) effect {
	return blocked(message).with(func(o *effect) { o.refused = "True RefusedByAPIServer" })
}

// blocked returns the expected effect for a plan that Remit refuses, for example because of existing objects.
func blocked(message string) effect {
	return effect{phase: "Installing", installed: "False InstallComponentFailed", missing: "False PermissionsHeld", refused: "True RefusedByRemit",
		message: "1 object(s) were refused; nothing was written.\n" + message + "\n" + inReport, steps: "??????", writes: []string{writesReport}, after: minRetryDelay, asks: true}
}

const inReport = "The full report is in ConfigMap ns/remit-report-install-# (report.yaml, grant.yaml)."

// completes returns the expected effect for a plan that completes. steps contains the statuses of its steps.
func completes(steps string, writes ...string) effect {
	return effect{phase: "Complete", installed: "True", missing: "False PermissionsHeld", refused: "False AcceptedByAPIServer", steps: steps, writes: writes}
}

// failsMidway returns the expected effect for a plan whose run ends with an error after some writes.
func failsMidway(steps, message string, writes ...string) effect {
	return effect{phase: "Installing", installed: "False InstallComponentFailed", missing: "False PermissionsHeld", refused: "False AcceptedByAPIServer",
		message: "retrying execution due to error: " + message, failed: message, steps: steps, writes: writes, asks: true}
}

// asks adds the expectation that the next reconcile sends requests, because the cache does not show what blocks the
// plan.
func asks(o *effect) { o.asks = true }

func (o effect) with(edit func(*effect)) effect {
	edit(&o)
	return o
}

// manual makes the plan require approval. approved reports whether it is already approved.
func manual(approved bool) change {
	return planned(func(ip *operatorsv1alpha1.InstallPlan) {
		ip.Spec.Approval, ip.Spec.Approved = operatorsv1alpha1.ApprovalManual, approved
	})
}

// newer adds a newer plan for a Subscription.
func newer(subscription types.UID) change {
	return func(w *world) {
		other := *w
		other.plan = &operatorsv1alpha1.InstallPlan{Spec: operatorsv1alpha1.InstallPlanSpec{Approval: operatorsv1alpha1.ApprovalManual, Generation: 2}}
		other.pin.SubscriptionUID, other.pin.Digest = subscription, "sha256:0"
		other.putPlan()
	}
}

// edited adds a plan for the same Subscription that was created an hour ago, and whose generation a user has increased since.
func edited(w *world) {
	other := *w
	w.plan.CreationTimestamp = metav1.NewTime(time.Now())
	other.plan = &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec:       operatorsv1alpha1.InstallPlanSpec{Approval: operatorsv1alpha1.ApprovalManual, Generation: math.MaxInt},
	}
	other.pin.Digest = "sha256:0"
	other.putPlan()
}

func TestWaitsForTheAuthorOfAManuallyCreatedPlan(t *testing.T) {
	t.Parallel()
	const refusal = `InstallPlan "install-hand" is not executed: `
	for _, row := range []struct {
		name   string
		age    time.Duration
		status operatorsv1alpha1.InstallPlanStatus
		want   effect
	}{
		{"just created", time.Second, operatorsv1alpha1.InstallPlanStatus{}, effect{after: 4 * time.Second}},
		{"created in the future, according to this clock", -time.Minute, operatorsv1alpha1.InstallPlanStatus{}, effect{after: 5 * time.Second}},
		{"its author wrote steps", time.Second, operatorsv1alpha1.InstallPlanStatus{Plan: []*operatorsv1alpha1.Step{{Resolving: "x"}}}, fails("PlanUnknown", refusal)},
		{"its author wrote a phase", time.Second, operatorsv1alpha1.InstallPlanStatus{Phase: "Installing"}, fails("PlanUnknown", refusal)},
		{"its author wrote nothing", 5 * time.Second, operatorsv1alpha1.InstallPlanStatus{}, fails("PlanUnknown", refusal)},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			made := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "install-hand", CreationTimestamp: metav1.NewTime(w.options.Clock.Now().Add(-row.age))},
				Spec: w.plan.Spec, Status: row.status}
			w.Put(made)
			w.plan = made
			got := w.reconcile()
			require.Equal(t, row.want.phase, got.phase)
			require.InDelta(t, row.want.after, got.after, float64(time.Second), "timestamps have no fractions of seconds")
			require.Contains(t, got.message, row.want.message)
		})
	}
}

func TestPlansThatAreNotExecuted(t *testing.T) {
	t.Parallel()
	const howTo = "InstallPlan ns/install-# is waiting for approval.\nTo see what it writes: kubectl remit plan show install-# -n ns\n" +
		`To approve it: kubectl patch installplan install-# -n ns --type merge --patch '{"spec":{"approved":true}}'`
	checkRows(t, []row{
		{"is complete already", []change{planned(func(ip *operatorsv1alpha1.InstallPlan) { ip.Status.Phase = "Complete" })}, effect{phase: "Complete"}},
		{"has failed already", []change{planned(func(ip *operatorsv1alpha1.InstallPlan) { ip.Status.Phase = "Failed" })}, effect{phase: "Failed"}},
		{"has a name that does not commit to its pins", []change{planned(func(ip *operatorsv1alpha1.InstallPlan) { ip.Name = unrelated })},
			fails("PlanUnknown", `InstallPlan "install-#" is not executed: the pins do not match the name of the InstallPlan: the InstallPlan was edited`)},
		{"is superseded by a newer plan", []change{newer("sub")}, fails("Superseded", `InstallPlan "install-#" superseded this InstallPlan before execution`)},
		{"is newer than a plan with a larger generation", []change{edited}, completes("++++++", append(steps(), deploys)...)},
		{"is older than a plan of another Subscription", []change{newer("other")}, completes("++++++", append(steps(), deploys)...)},
		{"is not approved", []change{manual(false)}, effect{phase: "RequiresApproval", missing: "False PermissionsHeld", refused: "Unknown NotTried", message: howTo, steps: "??????"}},
		{"is not approved, and permissions are missing", []change{manual(false), without(binding("all"))},
			effect{phase: "RequiresApproval", missing: "True AccountLacksPermissions", refused: "Unknown NotTried", message: howTo, steps: "??????", writes: []string{writesReport}}},
		{"is approved", []change{manual(true)}, completes("++++++", append(steps(), deploys)...)},
	})
}

// everythingMissing is the message of a plan whose account has no permissions at all.
const everythingMissing = `ServiceAccount ns/acct is missing 7 permissions; nothing was written.
- User "system:serviceaccount:ns:acct" cannot create resource "customresourcedefinitions" in API group "apiextensions.k8s.io" at the cluster scope (named "things.example.com"), nor patch it
- User "system:serviceaccount:ns:acct" cannot create resource "configmaps" in API group "" in the namespace "ns" (named "defaults"), nor get or patch it
- User "system:serviceaccount:ns:acct" cannot get resource "pods" in API group "" in the namespace "ns"
- User "system:serviceaccount:ns:acct" cannot create resource "serviceaccounts" in API group "" in the namespace "ns" (named "demo"), nor get or patch it
- User "system:serviceaccount:ns:acct" cannot create resource "deployments" in API group "apps" in the namespace "ns" (named "demo"), nor delete, get or patch it
- User "system:serviceaccount:ns:acct" cannot create resource "clusterserviceversions" in API group "operators.coreos.com" in the namespace "ns" (named "demo.v1.0.0"), nor delete, get or patch it
- User "system:serviceaccount:ns:acct" cannot create resource "rolebindings", "roles" in API group "rbac.authorization.k8s.io" in the namespace "ns" (named "demo.v1.0.0-demo-#"), nor get or patch it
` + inReport

// unrelated is the name of a plan that has other pins.
const unrelated = "install-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// leaving deletes an OperatorGroup, which a user keeps from being deleted.
func leaving(name string) change {
	return func(w *world) {
		group := operatorGroup(name, "acct")
		group.Finalizers = []string{"example.com/delay"}
		w.Put(group)
		w.Delete(group)
	}
}

func TestPlansWaitForTheirAccount(t *testing.T) {
	t.Parallel()
	acct := scoped.Account{Namespace: "ns", Name: "acct"}
	checkRows(t, []row{
		{"no OperatorGroup", []change{without(operatorGroup("og", ""))},
			paused("InstallCheckFailed", `namespace "ns" has no OperatorGroup; create one with a ServiceAccount in spec.serviceAccountName`)},
		{"an OperatorGroup of OLM that the cache does not show yet", []change{without(operatorGroup("og", "")), beforeRequest("remit: list OperatorGroupList", func(w *world) {
			group := operatorGroup("og", "acct")
			group.Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
			w.Put(group)
		})}, effect{}},
		{"two OperatorGroups", []change{with(operatorGroup("more", "acct"))}, paused("InstallCheckFailed", `namespace "ns" has 2 OperatorGroups (more, og); exactly one is required`)},
		{"an OperatorGroup that is being deleted", []change{leaving("og")}, paused("InstallCheckFailed", "OperatorGroup ns/og is being deleted; nothing can be installed")},
		{"an OperatorGroup that is being deleted according to the API server", []change{beforeRequest("remit: list OperatorGroupList", leaving("og"))},
			paused("InstallCheckFailed", "OperatorGroup ns/og is being deleted; nothing can be installed").with(func(o *effect) {
				o.missing, o.refused, o.steps = "False PermissionsHeld", "Unknown NotTried", "??????"
			})},
		{"an OperatorGroup without an account", []change{with(operatorGroup("og", ""))},
			paused("InstallCheckFailed", `OperatorGroup ns/og does not name a ServiceAccount (spec.serviceAccountName) and no default account is configured for its namespace; nothing can be installed`)},
		{"an account that does not exist", []change{without(account("ns", "acct"))}, paused("InstallCheckFailed", "ServiceAccount acct not found")},
		{"an OperatorGroup that selects no namespace", []change{selecting("none")},
			paused("InstallCheckFailed", "OperatorGroup ns/og selects no namespaces: spec.selector matches no namespace that ServiceAccount ns/acct is allowed to get")},
		{"an account that is not enrolled", []change{func(w *world) { w.missing = []string{"remit-olm"} }},
			paused("InstallCheckFailed", "ServiceAccount ns/acct is not enrolled: remit-olm cannot request a token for it; see the condition AccountUsable of the namespace's OperatorGroup for the RBAC to apply").
				with(func(o *effect) {
					o.missing, o.refused, o.steps = "False PermissionsHeld", "Unknown NotTried", "??????"
				})},
		{"an account that is deleted when its client is opened", []change{func(w *world) { w.unopened = &scoped.Error{Reason: scoped.AccountMissing, Message: "gone"} }},
			paused("InstallCheckFailed", "gone").with(func(o *effect) {
				o.missing, o.refused, o.steps = "False PermissionsHeld", "Unknown NotTried", "??????"
			}).with(asks)},
		{"a token that is refused although the cache shows the enrollment", []change{func(w *world) { w.unopened = scoped.NotEnrolled(acct) }},
			failsMidway("??????", scoped.NotEnrolled(acct).Error()).with(func(o *effect) { o.refused = "Unknown NotTried" })},
		{"an account that is outdated in the cache", []change{lagging(operatorGroup("og", "")), with(operatorGroup("og", "boss"), account("ns", "boss"))},
			failsMidway("??????", `the account of namespace "ns" changed from ns/acct to ns/boss`).with(func(o *effect) { o.refused = "Unknown NotTried" })},
		{"the default account", []change{with(operatorGroup("og", ""), account("remit", "acct")), defaultAccount("remit", "acct"), asAdministrator("remit", "acct")},
			completes("++++++", append(steps(), deploys)...)},
	})
}

func TestPlansWaitForPermissions(t *testing.T) {
	t.Parallel()
	checkRows(t, []row{
		{"of the account", []change{without(binding("all"))}, paused("AccountLacksPermissions", everythingMissing).with(func(o *effect) {
			o.missing, o.refused, o.steps, o.writes = "True AccountLacksPermissions", "Unknown NotTried", "??????", []string{writesReport}
		})},
		{"that another authorizer grants", []change{without(binding("all")), func(w *world) { w.Allow("*") }}, completes("++++++", append(steps(), deploys)...)},
	})
}

func TestPlansWaitForTheirBundle(t *testing.T) {
	t.Parallel()
	unread := func(err error) []change { return []change{func(w *world) { w.unread = err }} }
	image := catalog.NotUnpacked{Catalog: types.NamespacedName{Namespace: "ns", Name: "cat"}, Bundle: "demo.v1.0.0", Image: "images.test/demo"}
	failing := image
	failing.Failure = errors.New("no route")
	checkRows(t, []row{
		{"while it is unpacked", unread(&image), paused("BundleContentUnavailable", `bundle content: bundle "demo.v1.0.0" of catalogsource ns/cat: bundle image "images.test/demo" is being unpacked`).
			with(func(o *effect) { o.lookups = "BundleLookupPending BundleNotUnpacked" })},
		{"while it cannot be unpacked", unread(&failing), paused("BundleContentUnavailable", `bundle content: bundle "demo.v1.0.0" of catalogsource ns/cat: bundle image "images.test/demo" could not be unpacked: no route`).
			with(func(o *effect) { o.lookups = "BundleLookupFailed JobFailed" })},
		{"and read it again after an error", unread(errors.New("connection reset")),
			paused("BundleContentUnavailable", `bundle content: bundle "demo.v1.0.0" of catalogsource ns/cat: connection reset`).with(func(o *effect) { o.after = minRetryDelay })},
		{"while the catalog has different content", []change{func(w *world) { w.pin.Digest = "sha256:0" }}, paused("BundleContentUnavailable",
			`bundle content: catalogsource ns/cat now has digest sha256:7194466f7eeb9bb93cadaafaa966510b21867fc3d50e01314e4c93b57c65a840 for bundle "demo.v1.0.0", but the InstallPlan requires sha256:0`)},
		{"while the catalog does not exist", []change{func(w *world) { w.pin.Catalog = "other" }}, paused("BundleContentUnavailable", "bundle content: catalogsource ns/other is not available")},
		{"unless the catalog is of another namespace", []change{func(w *world) { w.pin.CatalogNamespace = "other" }},
			fails("InstallComponentFailed", "catalogsource other/cat is not visible from namespace ns")},
		{"unless it is invalid", []change{bundled(demoCSV, demoCRD, `{apiVersion: v1, kind: Pod, metadata: {name: p}}`)},
			fails("InstallComponentFailed", `the InstallPlan contains invalid data: bundle "demo.v1.0.0": manifest 3: manifest /v1, Kind=Pod "p": bundles cannot contain objects of this kind`)},
	})
}

func TestObstaclesAreReportedBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "defaults", errors.New("exceeded quota"))
	notReady := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "defaults", field.ErrorList{field.Forbidden(nil, "no params found for policy binding")})
	old := metav1.NewTime(time.Now().Add(-2 * time.Hour))
	const remedy = "delete it if nothing else needs it, or uninstall the operator that its labels olm.owner and olm.owner.namespace identify"
	const unowned = "already exists and was not created by this install: it does not have the lineage label of package \"demo\" in namespace \"ns\"; " +
		"it was not changed: "
	const theirs, unlabeled = unowned + remedy, unowned + "delete it if nothing else needs it"
	const kept = "its custom resources would be deleted with it, so keep it, and use the operator that its labels olm.owner and olm.owner.namespace identify"
	checkRows(t, []row{
		{"an object of a user", []change{with(configMap("defaults"))}, blocked("- ConfigMap ns/defaults " + unlabeled)},
		{"an object of another install", []change{with(createdFor("other", configMap("defaults")))}, blocked("- ConfigMap ns/defaults " + theirs)},
		{"an object with forged labels", []change{with(forged(configMap("defaults")))}, blocked("- ConfigMap ns/defaults already exists and was not created by this install: it has the lineage label of package \"demo\" in namespace \"ns\", " +
			"but it has no proof that Remit created it (annotation remit.dev/proof); it was not changed: " + remedy)},
		{"a CustomResourceDefinition of an earlier namespace", []change{with(createdFor("demo", existingCRD(t, func(c *apiextensionsv1.CustomResourceDefinition) {
			c.CreationTimestamp, c.Spec.Versions[0].Name = old, "v0"
		})))},
			blocked(`- CustomResourceDefinition things.example.com already exists and was not created by this install: it has the lineage label of package "demo" in namespace "ns", but ` +
				"it was created for an earlier namespace with the same name; after a restore from a backup, an administrator can set trusted-before in Secret remit/remit-proof; it was not changed: " + kept)},
		{"a CustomResourceDefinition of another install that does not serve the version", []change{with(existingCRD(t, func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v0" }))},
			blocked("- CustomResourceDefinition things.example.com " + unowned + "its custom resources would be deleted with it, so keep it, and find out what else installed it")},
		{"a CustomResourceDefinition with objects of a removed version", []change{with(createdFor("demo", existingCRD(t, func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v0"} })))},
			blocked(`- CustomResourceDefinition things.example.com: risk of data loss updating "things.example.com": new CRD removes version v0 that is listed as a stored version on the existing CRD`)},
		{"a CustomResourceDefinition of a protected group", []change{bundled(demoCSV, strings.ReplaceAll(demoCRD, "example.com", "apps.k8s.io"), demoConfigMap)},
			blocked("- CustomResourceDefinition things.apps.k8s.io is in a protected API group: only the installation's default account may write it")},
		{"existing objects that a stricter schema does not accept", []change{with(createdFor("demo", existingCRD(t, func(*apiextensionsv1.CustomResourceDefinition) {})), thing()), bundled(demoCSV, stricterCRD, demoConfigMap)},
			blocked(`- CustomResourceDefinition things.example.com: error validating existing CRs against new CRD's schema for "things.example.com": updated validation is too restrictive: ` +
				"1 object(s) would be invalid in version v1: ns/first (spec: Required value)").with(func(o *effect) { o.after = minRecheck })},
		{"a foreign binding of the operator's role", []change{bindingBeforeRole}, blocked("- Role ns/demo.v1.0.0-demo-#: RoleBinding ns/theirs already exists and was not created by this install: " +
			"it refers to Role ns/demo.v1.0.0-demo-# and would grant its subjects the operator's permissions; it was not changed: delete it")},
		{"a binding of a user that has the name of the operator's", []change{func(w *world) {
			b := theirBinding(w.t)
			b.Subjects = nil
			w.Put(b)
		}}, blocked("- RoleBinding ns/demo.v1.0.0-demo-# " + unlabeled)},
		{"a quota", []change{refusing("acct: try ConfigMap ns/defaults", quota)}, rejected("- ConfigMap ns/defaults: " + quota.Error())},
		{"a quota for an object whose owner changes", []change{with(otherCSV(), ownedByOther(createdFor("demo", configMap("defaults")))), refusing("acct: try ConfigMap ns/defaults", quota)},
			rejected("- ConfigMap ns/defaults: " + quota.Error())},
		{"a quota for the Deployment", []change{refusing("acct: try Deployment ns/demo", quota)}, rejected("- Deployment ns/demo: " + quota.Error())},
		{"an invalid object", []change{refusing("acct: try ConfigMap ns/defaults", malformed)},
			fails("InstallComponentFailed", "1 object(s) were refused; nothing was written.\n- ConfigMap ns/defaults: "+malformed.Error()+"\n"+inReport).with(func(o *effect) {
				o.missing, o.refused, o.steps, o.writes = "False PermissionsHeld", "True RefusedByAPIServer", "???!??", append([]string{writesReport}, o.writes...)
			})},
		{"a kind that is not served", []change{bundled(demoCSV, demoCRD, demoMonitor)}, unserved().with(func(o *effect) { o.missing, o.after, o.asks = "Unknown NotTried", 0, false })},
		{"a kind whose CustomResourceDefinition is not established", []change{bundled(demoCSV, demoCRD, demoMonitor), with(monitors(t)), undiscovered},
			unserved().with(func(o *effect) { o.after, o.asks = 0, true })},
		{"an established kind that discovery does not include yet", []change{bundled(demoCSV, demoCRD, demoMonitor), with(monitors(t)), whichServes("servicemonitors.monitoring.coreos.com"), undiscovered},
			unserved()},
		{"a webhook that is down, which blocks nothing", []change{refusing("acct: try ConfigMap ns/defaults", apierrors.NewInternalError(errors.New("webhook down")))}, completes("++++++", append(append([]string{writesReport}, steps()...), deploys)...)},
		{"a policy that is not ready, which is retried", []change{refusing("acct: try ConfigMap ns/defaults", notReady)}, failsMidway("??????", "apply ConfigMap ns/defaults: "+notReady.Error()).with(func(o *effect) { o.refused = "Unknown NotTried" })},
		{"a CRD account that does not exist", []change{crdAccount}, paused("InstallCheckFailed", "ServiceAccount remit/crds (the installation's CRD account) not found").
			with(func(o *effect) {
				o.missing, o.refused, o.steps = "False PermissionsHeld", "Unknown NotTried", "??????"
			}).with(asks)},
	})
}

func unserved() effect {
	return blocked("- ServiceMonitor ns/demo: api-server resource not found installing ServiceMonitor demo: GroupVersionKind monitoring.coreos.com/v1, Kind=ServiceMonitor not found on the cluster. " +
		"This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information")
}

// undiscovered makes requests for demoMonitor fail as they do for a kind that is missing from discovery.
func undiscovered(w *world) {
	unknown := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}}
	w.Refuse("acct: get ServiceMonitor ns/demo", unknown)
	w.Refuse("acct: try ServiceMonitor ns/demo", unknown)
}

// monitors returns the CustomResourceDefinition of demoMonitor.
func monitors(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	return existingCRD(t, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "servicemonitors.monitoring.coreos.com", "monitoring.coreos.com"
		c.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "servicemonitors", Kind: "ServiceMonitor"}
	})
}

var malformed = apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "defaults", field.ErrorList{field.Required(field.NewPath("data"), "x")})

func TestStepsAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	asCRDs := steps()
	asCRDs[1] = "crds: apply CustomResourceDefinition things.example.com"
	checkRows(t, []row{
		{"as the account", nil, completes("++++++", append(steps(), deploys)...)},
		{"as the CRD account, if the installation has one", []change{crdAccount, with(account("remit", "crds"))}, completes("++++++", append(asCRDs, deploys)...)},
		{"except a CustomResourceDefinition that serves the version already", []change{with(existingCRD(t, func(*apiextensionsv1.CustomResourceDefinition) {})), whichServes("things.example.com")},
			completes("+=++++", append(append(steps()[:1:1], steps()[2:]...), deploys)...)},
		{"until a CustomResourceDefinition has to be established", []change{beforeRequest(lastStep, nil)},
			paused("WaitingForApi", "waiting for CustomResourceDefinition things.example.com to be established").with(func(o *effect) {
				o.missing, o.refused, o.steps, o.writes = "False PermissionsHeld", "False AcceptedByAPIServer", "++++++", steps()
			}).with(asks)},
		{"and old plans are removed", []change{oldPlans}, completes("++++++", append(steps(), deploys)...).with(func(o *effect) {
			o.writes = append(o.writes, "acct: delete InstallPlan ns/old-5", "acct: delete InstallPlan ns/old-4")
		})},
		{"without the Deployment, if a requirement is missing", []change{bundled(strings.Replace(demoCSV, "name: things.example.com", "name: other.example.com", 1), demoCRD, demoConfigMap)},
			completes("++++++", steps()...)},
	})
}

func TestANewDefinitionIsTriedAsTheCRDAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crdAccount, with(account("remit", "crds")))
	w.reconcile()
	requests := w.Requests()
	require.Contains(t, requests, "crds: try CustomResourceDefinition things.example.com")
	require.NotContains(t, requests, "acct: try CustomResourceDefinition things.example.com")
}

func TestExecutionsThatFailAreRetried(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupResource{Resource: "configmaps"}
	quota := apierrors.NewForbidden(configMaps, "defaults", errors.New("exceeded quota"))
	const fourth = "acct: apply ConfigMap ns/defaults"
	upTo := func(n int) []string { return steps()[:n] }
	refusedBy := func(name string, err error) row {
		return row{"a write that is refused by " + name, []change{refusing(fourth, err)},
			failsMidway("+++???", "apply ConfigMap ns/defaults: "+err.Error(), append(upTo(3), fourth+" (refused)")...)}
	}
	checkRows(t, []row{
		refusedBy("a quota", quota), refusedBy("a policy without a reason", recorded.ByAPolicy("configmaps", "defaults")), refusedBy("a webhook without a code", recorded.ByAWebhook()),
		{"a concurrent write, which is not reported", []change{refusing(fourth, apierrors.NewConflict(configMaps, "defaults", errors.New("edited")))},
			failsMidway("+++???", `apply ConfigMap ns/defaults: Operation cannot be fulfilled on configmaps "defaults": edited`, append(upTo(3), fourth+" (refused)")...).
				with(func(o *effect) { o.installed, o.message = "", "" })},
		{"a write that is never accepted fails the plan", []change{refusing(fourth, malformed)},
			fails("InstallComponentFailed", "apply ConfigMap ns/defaults: "+malformed.Error()).with(func(o *effect) {
				o.missing, o.refused, o.steps, o.writes = "False PermissionsHeld", "False AcceptedByAPIServer", "+++!??", slices.Concat(upTo(3), []string{fourth + " (refused)"}, o.writes)
			})},
		{"a change of the account stops the plan", []change{beforeRequest(fourth, func(w *world) { w.Put(operatorGroup("og", "boss"), account("ns", "boss")) })},
			failsMidway("++++??", `the account of namespace "ns" changed to ns/boss while the plan was executed`, upTo(4)...)},
		{"the deletion of the plan stops its execution", []change{beforeRequest(fourth, func(w *world) { w.plan.Finalizers = nil; w.Delete(w.plan) })}, effect{writes: upTo(4), after: status.CacheLag}},
		{"a plan that is outdated in the cache is not executed", []change{beforeRequest("remit: get InstallPlan ns/install-#", func(w *world) {
			w.Get(w.plan)
			w.plan.Labels = map[string]string{names.LabelManaged: "x"}
			w.Put(w.plan)
		})}, effect{after: status.CacheLag, asks: true}},
		{"a binding that another client creates in the meantime is not changed", []change{beforeRequest(lastStep, bindingOfOthers)},
			failsMidway("+++++?", `apply RoleBinding ns/demo.v1.0.0-demo-#: Operation cannot be fulfilled on rolebindings.rbac.authorization.k8s.io "demo.v1.0.0-demo-#": the object has version 2`,
				append(upTo(5), lastStep+" (refused)")...).with(func(o *effect) { o.installed, o.message = "", "" })},
		{"an existing object that was deleted in the meantime", []change{with(createdFor("demo", configMap("defaults"))), beforeRequest(lastStep, func(w *world) {
			w.establish("things.example.com")
			w.Delete(configMap("defaults"))
		})}, failsMidway("++++++", "ConfigMap ns/defaults was deleted after it was created", steps()...)},
	})
}
