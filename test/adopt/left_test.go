package adopt

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// workload is a namespace in which each controller has something to do.
type workload struct {
	*recorded
	since int64
}

// newWorkload creates a namespace with the annotations on its OperatorGroup and CatalogSource.
func newWorkload(t *testing.T, annotations map[string]string) workload {
	t.Helper()
	w := newGroup(t, annotations)
	w.fill(annotations)
	return w
}

// newGroup creates the namespace of a workload with only the OperatorGroup.
func newGroup(t *testing.T, annotations map[string]string) workload {
	t.Helper()
	tn := cluster.Tenant(t)
	w := workload{&recorded{Tenant: tn, copies: tn.Other(nil), targets: tn.Namespace}, tn.Since}
	tn.GrantReleases()
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "create", "patch", "delete"}}
	}
	tn.Grant(w.copies, all(rbacv1.GroupName, "roles", "rolebindings"), all(operatorsv1alpha1.GroupName, "clusterserviceversions"), all("", "configmaps"))
	tn.Create(&operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "group", Annotations: annotations},
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: env.AccountName, TargetNamespaces: []string{w.Namespace, w.copies}},
	})
	return w
}

// fill creates the other objects of a workload.
func (w workload) fill(annotations map[string]string) {
	w.T.Helper()
	w.Create(&corev1.ConfigMap{ObjectMeta: w.Meta("catalog"), Data: map[string]string{"catalog.json": env.Releases("op.v1.0.0 stable")}})
	cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: w.Meta("catalog"), Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "catalog"}}
	cs.Annotations = annotations
	w.Create(cs)
	c := w.newCSV("done")
	c.Spec.CustomResourceDefinitions.Owned = nil
	w.create(c, byCatalog)
	now := metav1.Now()
	require.NoError(w.T, cluster.Client.Get(w.T.Context(), client.ObjectKeyFromObject(c), c))
	before := c.DeepCopy()
	c.SetPhase(operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful, "install strategy completed with no errors", &now)
	require.NoError(w.T, cluster.Client.Status().Patch(w.T.Context(), c, client.MergeFrom(before)))
	w.Subscribe("catalog", "op", "stable")
	w.strayPlan()
}

// strayPlan creates an InstallPlan that a user has written, which Remit refuses as soon as it has steps.
func (w workload) strayPlan() {
	w.T.Helper()
	ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: w.Meta("install-stray"), Spec: operatorsv1alpha1.InstallPlanSpec{
		Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, ClusterServiceVersionNames: []string{"stray.v1.0.0"}}}
	w.Create(ip)
	before := ip.DeepCopy()
	ip.Status.Phase, ip.Status.CatalogSources = operatorsv1alpha1.InstallPlanPhaseInstalling, []string{"catalog"}
	ip.Status.Plan = []*operatorsv1alpha1.Step{{Resolving: "stray.v1.0.0", Status: operatorsv1alpha1.StepStatusUnknown, Resource: operatorsv1alpha1.StepResource{
		CatalogSource: "catalog", CatalogSourceNamespace: w.Namespace, Version: "v1", Kind: "ConfigMap", Name: "stray", Manifest: "{}"}}}
	require.NoError(w.T, cluster.Client.Status().Patch(w.T.Context(), ip, client.MergeFrom(before)))
}

// requests returns what Remit's programs, and the account, have requested in the namespaces since the workload was created.
func (w workload) requests() []audit.Event {
	w.T.Helper()
	identities := cluster.ControllerIdentities()
	account := scoped.Username(w.Account.Namespace, w.Account.Name)
	events, _, err := cluster.AuditedFrom(w.T.Context(), w.since, func(e audit.Event) bool {
		return (identities.Is(e) || e.User.Username == account) && e.Object != nil && (e.Object.Namespace == w.Namespace || e.Object.Namespace == w.copies)
	})
	require.NoError(w.T, err)
	return events
}

// act is a request that shows that a controller has acted in a namespace.
type act struct{ verb, resource, subresource, by string }

func (a act) in(events []audit.Event) int {
	n := 0
	for _, e := range events {
		if e.Verb == a.verb && e.Object.Resource == a.resource && e.Object.Subresource == a.subresource && e.User.Username == scoped.Username(cluster.Home, a.by) {
			n++
		}
	}
	return n
}

// acts contains, for each controller that has something to do in a namespace, a request that only this controller sends.
func acts() map[string]act {
	catalog, olm := names.ServiceAccountCatalog, names.ServiceAccountOLM
	return map[string]act{
		"catalogsource":     {"patch", "catalogsources", "status", catalog},
		"subscription":      {"patch", "subscriptions", "status", catalog},
		"installplan":       {"patch", "installplans", "status", catalog},
		"operatorgroup":     {"patch", "operatorgroups", "status", olm},
		"csv":               {"patch", "clusterserviceversions", "status", olm},
		"copiedcsv":         {"create", "clusterserviceversions", "", olm},
		"operatorcondition": {"create", "operatorconditions", "", olm},
	}
}

// requireActed waits until each controller has acted.
func (w workload) requireActed(why string) {
	w.T.Helper()
	events := []audit.Event{}
	w.Eventually(func(c *assert.CollectT) {
		events = w.requests()
		for name, a := range acts() {
			assert.NotZero(c, a.in(events), "%s: controller %s has not acted", why, name)
		}
	})
}

func TestEachControllerLeavesANamespaceToOLM(t *testing.T) {
	left := newGroup(t, leftToOLM())
	newWorkload(t, nil).requireActed("before the other objects are created, so that the programs have observed the OperatorGroup")
	left.fill(leftToOLM())
	newWorkload(t, nil).requireActed("in a namespace that Remit manages, which was created later")
	events := left.requests()
	for name, a := range acts() {
		assert.Zero(t, a.in(events), "controller %s has acted in the namespace that is left to OLM", name)
	}
	require.Empty(t, events, "no request may be sent there, not even the read with which a controller checks the annotation again before a write")

	t.Log("without the annotation, each controller acts")
	for _, obj := range []client.Object{&operatorsv1.OperatorGroup{ObjectMeta: left.Meta("group")}, &operatorsv1alpha1.CatalogSource{ObjectMeta: left.Meta("catalog")}} {
		require.NoError(t, cluster.Client.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":null}}`))))
	}
	left.requireActed("after the annotation was removed")
}

func TestUsesNoCatalogThatIsLeftToOLM(t *testing.T) {
	tn := cluster.Tenant(t)
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	for name, annotations := range map[string]map[string]string{"left": leftToOLM(), "used": nil} {
		tn.Create(&corev1.ConfigMap{ObjectMeta: tn.Meta(name), Data: map[string]string{"catalog.json": env.Releases(name + ".v1.0.0 stable")}})
		cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: tn.Meta(name), Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: name}}
		cs.Annotations = annotations
		tn.Create(cs)
	}
	tn.Subscribe("left", "left", "stable")
	reported := func(c *assert.CollectT) *sub {
		got := &sub{}
		assert.NoError(c, tn.Get("left", got))
		return got
	}
	tn.Eventually(func(c *assert.CollectT) {
		used := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("used", used))
		assert.NotNil(c, used.Status.GRPCConnectionState)
		assert.Equal(c, corev1.ConditionTrue, reported(c).Status.GetCondition(operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy).Status)
	})
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, tn.Get("left", cs))
	require.Empty(t, cs.Status)

	t.Log("adopt lists the CatalogSource and removes its annotation, although OLM installed no operator in the namespace")
	report := adopt(t, 0, "-n", tn.Namespace, "--yes")
	requireVerdict(t, report, "CatalogSource", "left", "left", "Remit uses it without changes")
	tn.Eventually(func(c *assert.CollectT) {
		assert.Equal(c, "left.v1.0.0", reported(c).Status.InstalledCSV)
	})
	t.Log("--undo leaves the whole namespace to OLM")
	adopt(t, 0, "-n", tn.Namespace, "--undo", "--yes")
	for _, name := range []string{"left", "used"} {
		got := &operatorsv1alpha1.CatalogSource{}
		require.NoError(t, tn.Get(name, got))
		require.Equal(t, leftToOLM(), got.Annotations, name)
	}
}
