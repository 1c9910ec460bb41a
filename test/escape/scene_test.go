package escape

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	tick = 50 * time.Millisecond
	// accountName is the name of every scene's account, and groupName the name of its OperatorGroup.
	accountName = "acct"
	groupName   = "og"
	// bossName is the name of a ServiceAccount with all permissions, in rows that have one.
	bossName = "boss"
	// malloryName is the name of a user with all permissions in the scene's namespace and none in others.
	malloryName = "mallory"
)

// row is one hostile input and its required outcome.
type row struct {
	// number is the row's number in the specification. Numbers with a letter are additional rows.
	number, title string
	holds         profile
	// If boss is set, the scene has a ServiceAccount that is bound to cluster-admin.
	boss bool
	// directory returns the content of a file-based catalog that is too large for a ConfigMap.
	directory func() string
	// long excludes a row from the sample.
	long bool
	play func(s *scene)
}

// profile contains the account's rules in its namespace and cluster-wide.
type profile struct{ own, cluster []rbacv1.PolicyRule }

// rule returns a rule for the given resources, which are separated by spaces.
func rule(group, resources string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: verbs}
}

func everything() rbacv1.PolicyRule { return rule("*", "*", "*") }

// The profiles of the specification.
func p0() profile {
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	return profile{own: []rbacv1.PolicyRule{
		rule("operators.coreos.com", "clusterserviceversions subscriptions", verbs...),
		rule("", "serviceaccounts services configmaps secrets pods", verbs...),
		rule(rbacv1.GroupName, "roles rolebindings", verbs...),
		rule("apps", "deployments", verbs...),
	}}
}

func p1() profile { return profile{own: []rbacv1.PolicyRule{everything()}} }

func p2() profile {
	p := p0()
	p.cluster = []rbacv1.PolicyRule{rule("apiextensions.k8s.io", "customresourcedefinitions", "create", "update", "patch", "get")}
	return p
}

func p3() profile {
	p := p0()
	p.cluster = []rbacv1.PolicyRule{
		rule(rbacv1.GroupName, "clusterroles clusterrolebindings", "create", "patch", "get", "delete"),
		rule("", "pods", "get", "list", "watch"),
	}
	return p
}

// scene is the namespace of one row, which the specification calls "t1".
type scene struct {
	*env.Tenant
	number string
	told   oracle.Scene
	// audited is the offset in the audit log at which the scene began.
	audited int64
	// catalogs is the number of ClusterCatalogs that the scene has created.
	catalogs int
}

// newScene creates the namespace with its account and prepares the oracle for the attack.
func newScene(t testing.TB, r row) *scene {
	t.Helper()
	namespace := oracle.DepartingPrefix + r.number + "-" + rand.String(4)
	s := &scene{number: r.number, Tenant: &env.Tenant{T: t, Cluster: cluster, Namespace: namespace,
		Account: types.NamespacedName{Namespace: namespace, Name: accountName}}}
	s.told = oracle.Scene{Namespace: namespace, Accounts: []types.NamespacedName{s.Account}}
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	s.account(accountName, r.holds)
	if r.boss {
		s.account(bossName, profile{cluster: []rbacv1.PolicyRule{everything(), {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}}})
		s.told.Stronger = []string{bossName}
	}
	s.Enroll()
	require.NoError(t, judge.Register(t.Context(), &s.told))
	s.audited = auditedUntilNow(t)
	return s
}

// audited is the offset up to which newScene has read the audit log. A scene reads the log only from there, because
// reading the whole log would take longer with each row.
var audited int64

// auditedUntilNow returns the offset in the audit log after all requests that have been completed so far.
func auditedUntilNow(t testing.TB) int64 {
	t.Helper()
	var err error
	audited, err = cluster.AuditedUntilNow(t.Context(), audited)
	require.NoError(t, err)
	return audited
}

// account creates a ServiceAccount with the permissions of a profile.
func (s *scene) account(name string, holds profile) {
	s.T.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: s.Meta(name)})
	s.bind(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: name}, name, holds)
}

func (s *scene) bind(subject rbacv1.Subject, name string, holds profile) {
	s.T.Helper()
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	if holds.own != nil {
		s.Create(&rbacv1.Role{ObjectMeta: s.Meta(name), Rules: holds.own})
		s.Create(&rbacv1.RoleBinding{ObjectMeta: s.Meta(name), RoleRef: ref("Role", name), Subjects: []rbacv1.Subject{subject}})
	}
	if holds.cluster != nil {
		meta := metav1.ObjectMeta{Name: s.Namespace + "-" + name}
		s.createOutside(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: holds.cluster})
		s.createOutside(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref("ClusterRole", meta.Name), Subjects: []rbacv1.Subject{subject}})
	}
}

// createOutside creates an object outside the namespace and deletes it after the row.
func (s *scene) createOutside(obj client.Object) {
	s.T.Helper()
	s.Create(obj)
	s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), obj) })
}

// judged runs the oracle's checks. If the row passed, it also starts the deletion of the namespace.
func (s *scene) judged() {
	s.T.Helper()
	assert.NoError(s.T, judge.Check(context.WithoutCancel(s.T.Context()), &s.told))
	if s.T.Failed() {
		s.explain()
		return // keep the namespace for inspection
	}
	s.leave()
}

// left contains the namespaces whose deletion has started.
var left []string

// leave starts the deletion of the namespace.
func (s *scene) leave() {
	s.T.Helper()
	leave(s.T, s.Namespace)
}

// leave starts the deletion of a namespace.
func leave(t testing.TB, namespace string) {
	t.Helper()
	left = append(left, namespace)
	assert.NoError(t, judge.Leave(context.WithoutCancel(t.Context()), namespace))
}

// deleteNamespace deletes the namespace, and leaves its content to the namespace controller.
func (s *scene) deleteNamespace() {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}))
}

// explain logs the statuses that help to debug a failure.
func (s *scene) explain() {
	for _, list := range []client.ObjectList{
		&operatorsv1.OperatorGroupList{}, &operatorsv1alpha1.CatalogSourceList{}, &operatorsv1alpha1.SubscriptionList{},
		&operatorsv1alpha1.InstallPlanList{}, &operatorsv1alpha1.ClusterServiceVersionList{}, &olmv1.ClusterExtensionList{},
	} {
		in := client.InNamespace(s.Namespace)
		if _, isGlobal := list.(*olmv1.ClusterExtensionList); isGlobal {
			in = ""
		}
		if cluster.Client.List(context.WithoutCancel(s.T.Context()), list, in) != nil {
			continue
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
			if err != nil {
				return err
			}
			obj := &unstructured.Unstructured{Object: content}
			status, err := json.Marshal(content["status"])
			s.T.Logf("%T %s: %.3000s", item, obj.GetName(), status)
			return err
		})
		assert.NoError(s.T, err)
	}
}

// group creates the OperatorGroup.
func (s *scene) group(targets ...string) *operatorsv1.OperatorGroup {
	s.T.Helper()
	og := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName),
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, TargetNamespaces: targets}}
	s.Create(og)
	return og
}

// publish sets the content of the namespace's catalog.
func (s *scene) publish(bundles ...*forge.Bundle) {
	s.T.Helper()
	s.publishText(forge.Catalog(bundles...))
}

func (s *scene) publishText(text string) {
	s.T.Helper()
	s.Create(&corev1.ConfigMap{ObjectMeta: s.Meta("content"), Data: map[string]string{"catalog.yaml": text}})
	s.Create(&operatorsv1alpha1.CatalogSource{ObjectMeta: s.Meta("catalog"),
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}})
}

// subscribe creates a Subscription to probe, the package to which every row's bundle belongs.
func (s *scene) subscribe(edit ...func(*operatorsv1alpha1.SubscriptionSpec)) {
	s.T.Helper()
	s.Subscribe("catalog", probe, forge.Channel, edit...)
}

// install creates an OperatorGroup for the scene's namespace, publishes a bundle and subscribes to it.
func (s *scene) install(b *forge.Bundle) {
	s.T.Helper()
	s.group(s.Namespace)
	s.publish(b)
	s.subscribe()
}

// installDirectory is like install, but uses the row's catalog directory.
func (s *scene) installDirectory() {
	s.T.Helper()
	s.group(s.Namespace)
	s.Catalog("catalog", image(s.number))
	s.subscribe()
}

const (
	// probe is the package of every row, and probeCSV the name of its CSV.
	probe    = "probe"
	probeCSV = probe + ".v1.0.0"
)

// csv returns the harmless CSV, which rows modify.
func csv() forge.CSV { return forge.NewCSV(probeCSV) }

// bundleOf returns a bundle of the package probe with a CSV and other manifests.
func bundleOf(c forge.CSV, manifests ...string) *forge.Bundle {
	return forge.Of(probe, c, manifests...)
}

// apply creates an object in the scene's namespace with the given client.
func (s *scene) apply(c client.Client, content map[string]any) error {
	obj := &unstructured.Unstructured{Object: content}
	obj.SetNamespace(s.Namespace)
	return s.CreateAs(c, obj)
}

// mallory grants the user malloryName all permissions in the namespace and returns a client for that user, once the API
// server has observed them.
func (s *scene) mallory() client.Client {
	s.T.Helper()
	s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: malloryName}, malloryName, p1())
	return s.knownAs(malloryName)
}

// knownAs returns a client for a user who may list Pods, once the API server has observed that permission.
func (s *scene) knownAs(user string) client.Client {
	s.T.Helper()
	c := cluster.As(s.T, user)
	s.Eventually(func(t *assert.CollectT) {
		assert.NoError(t, c.List(s.T.Context(), &corev1.PodList{}, client.InNamespace(s.Namespace)))
	})
	return c
}

// requests returns the matching requests sent during the scene so far.
func (s *scene) requests(match func(audit.Event) bool) []audit.Event {
	s.T.Helper()
	out, _, err := cluster.AuditedFrom(s.T.Context(), s.audited, match)
	require.NoError(s.T, err)
	return out
}

// writes returns the requests that could have changed an object and were sent as the account, or as the account with
// the given name.
func (s *scene) writes(account ...string) []audit.Event {
	s.T.Helper()
	user := scoped.Username(s.Namespace, append(account, accountName)[0])
	return s.requests(func(e audit.Event) bool {
		return e.User.Username == user && e.IsWrite() && !isReview(e)
	})
}

func isReview(e audit.Event) bool {
	return e.Object != nil && e.Object.APIGroup == "authorization.k8s.io"
}

// nothingWritten asserts that nothing was written as the account, except what describes its OperatorGroup: the label of
// target namespaces and the annotation with the provided APIs, which no bundle can influence before it is installed.
func (s *scene) nothingWritten() {
	s.T.Helper()
	require.Empty(s.T, slices.DeleteFunc(s.writes(), audit.Event.DescribesGroup))
}

// refused waits until the Subscription reports that the bundle is not installed, in a message that contains these
// words.
func (s *scene) refused(words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		got := s.Subscription(c).Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed)
		assert.Equal(c, corev1.ConditionTrue, got.Status)
		for _, w := range words {
			assert.Contains(c, got.Message, w)
		}
		assert.Less(c, len(got.Message), maxMessage, "the message must be short")
	})
	s.nothingWritten()
}

// maxMessage is the maximum length of messages about hostile input.
const maxMessage = 2048

// catalogSays waits until the CatalogSource's message contains these words.
func (s *scene) catalogSays(words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		cs := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, s.Get("catalog", cs))
		for _, w := range words {
			assert.Contains(c, cs.Status.Message, w)
		}
		assert.Less(c, len(cs.Status.Message), maxMessage, "the message must be short")
	})
}

// isMissing waits until the plan and the Subscription report missing permissions, and returns the message. It asserts
// that the message contains these words and that nothing has been written.
func (s *scene) isMissing(words ...string) string {
	s.T.Helper()
	message := s.PermissionsMissing()
	for _, w := range append(words, accountName) {
		require.Contains(s.T, message, w)
	}
	s.nothingWritten()
	return message
}

// report returns the ConfigMap with all permissions that the plan's account is missing.
func (s *scene) report() *corev1.ConfigMap {
	s.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(s.T, s.Get(names.ReportPrefix+s.Plan(s.T).Name, cm))
	return cm
}

// planSays waits until the plan's Installed condition is False with a message that contains these words.
func (s *scene) planSays(words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		got := s.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
		assert.Equal(c, corev1.ConditionFalse, got.Status)
		for _, w := range words {
			assert.Contains(c, got.Message, w)
		}
	})
}

// csvSays waits until the CSV is in the given phase with a message that contains these words.
func (s *scene) csvSays(phase operatorsv1alpha1.ClusterServiceVersionPhase, words ...string) *operatorsv1alpha1.ClusterServiceVersion {
	s.T.Helper()
	var csv *operatorsv1alpha1.ClusterServiceVersion
	s.Eventually(func(c *assert.CollectT) {
		csv = s.CSV(c, probeCSV)
		assert.Equal(c, phase, csv.Status.Phase, csv.Status.Message)
		for _, w := range words {
			assert.Contains(c, csv.Status.Message, w)
		}
	})
	return csv
}

// settle returns once both programs for OLM v0 have installed an operator for another tenant. By then, they have
// started all work that was pending for this scene.
func (s *scene) settle() {
	s.T.Helper()
	require.NoError(s.T, judge.Beat(s.T.Context()))
}

// noDeployments asserts that the namespace has no Deployments after all pending work has started.
func (s *scene) noDeployments() {
	s.T.Helper()
	s.settle()
	list := &appsv1.DeploymentList{}
	s.list(list)
	require.Empty(s.T, list.Items)
}

// stop makes the stopper's plan stop at one of its ConfigMaps.
func (s *scene) stop() *env.Blocker {
	s.T.Helper()
	return s.Block(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m2"}})
}

// stopper returns a bundle whose plan has nine steps: the CSV, its ServiceAccount, five ConfigMaps, a Role and its
// binding. stop makes the plan stop at the fourth step.
func stopper() *forge.Bundle {
	var maps []string
	for n := range 5 {
		maps = append(maps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: m%d}}`, n+1))
	}
	return bundleOf(csv(), maps...)
}

// stopped installs the stopper and waits until its plan has stopped.
func (s *scene) stopped() *env.Blocker {
	s.T.Helper()
	blocker := s.stop()
	s.install(stopper())
	s.planSays("blocked by the test")
	require.NoError(s.T, s.Get("m1", &corev1.ConfigMap{}))
	return blocker
}

// halted asserts that the plan does not continue after it was stopped.
func (s *scene) halted() {
	s.T.Helper()
	s.settle()
	for _, name := range []string{"m2", "m3", "m4", "m5"} {
		s.absent(&corev1.ConfigMap{}, name)
	}
}

// absent asserts that a namespaced or cluster-scoped object does not exist.
func (s *scene) absent(obj client.Object, name string) {
	s.T.Helper()
	require.True(s.T, apierrors.IsNotFound(s.Get(name, obj)), "%T %s exists", obj, name)
}

// list fills a list with the objects in the namespace.
func (s *scene) list(list client.ObjectList) {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.List(s.T.Context(), list, client.InNamespace(s.Namespace)))
}

// allow sets which changes outside the namespace are legitimate in this row.
func (s *scene) allow(match func(oracle.Change) bool) { s.told.Allowed = match }

// groups returns all rows, grouped by what they attack.
var groups = sync.OnceValue(func() [][]row {
	return [][]row{rbacInCSV(), rbacManifests(), crds(), webhooks(), apis(), interception(), deployments(), secretsAndTokens(), certificates(),
		operatorGroups(), sights(), installPlans(), csvs(), phases(), keys(), ownership(), catalogs(), imageRows(), dependencies(), upgrades(), races(), malformed(),
		forgeries(), neighbors(), operatorObjects(), pastes(), heavies(), noise(), hoards(), budgets(), resolutions(), crowds(), stolenTokens(), awaitings(),
		extensionIdentities(), extensionBundles(), tenants(), excesses(), products(), grants(), grantsOfPlans(), windows(), optIns(), removals(), injections(), leftovers(), busyInstalls(), decodings(), withoutGroup(), occupations(), disturbances(), handovers(), gifts()}
})

func TestEscape(t *testing.T) {
	numbers := map[string]bool{}
	for _, r := range slices.Concat(groups()...) {
		require.False(t, numbers[r.number], "two rows have the number %s", r.number)
		numbers[r.number] = true
	}
	for r := range turns(t) {
		t.Run(fmt.Sprintf("%s %s", r.number, r.title), func(t *testing.T) {
			ran.Add(1)
			require.NoError(t, r.writeCatalog())
			s := newScene(t, r)
			defer func() {
				s.judged()
				if t.Failed() {
					failedRows = append(failedRows, t.Name())
					return
				}
				passed.Add(1)
			}()
			r.play(s)
		})
	}
	t.Run("nothing changed without a request", func(t *testing.T) {
		judge.ListAll()
		newScene(t, row{number: "end", holds: p0()}).judged()
		if t.Failed() {
			failedRows = append(failedRows, t.Name())
		}
	})
	t.Run("all namespaces are deleted", func(t *testing.T) {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, judge.Sweep(t.Context()))
			namespaces := &corev1.NamespaceList{}
			assert.NoError(c, cluster.Client.List(t.Context(), namespaces))
			for i := range namespaces.Items {
				assert.NotContains(c, left, namespaces.Items[i].Name)
			}
		}, 2*env.Patience, time.Second)
	})
}
