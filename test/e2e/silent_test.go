package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// settling is how long an install that is blocked may try again now and then, where no watch can tell that it
	// is no longer.
	settling = 130 * time.Second
	// silence is how long nothing is sent after that.
	silence = 25 * time.Second
)

// blockage is a reason for which an install waits. block returns when the status tells of it; the function that it
// returns removes the reason.
type blockage struct {
	name  string
	block func(tn *env.Tenant) (release func())
	// installs are the ClusterServiceVersion that succeeds in the end.
	installs string
}

func blockages() []blockage {
	return []blockage{
		{"dry-run", blockedByADryRun, "a.v2.0.0"},
		{"rbac", blockedByRBAC, bundle.CSV},
		{"unserved", blockedByAnUnservedKind, bundle.CSV},
		{"no-account", blockedByAMissingAccount, bundle.CSV},
		{"not-enrolled", blockedByEnrollment, bundle.CSV},
		{"csv", blockedAsACSV, bundle.CSV},
		{"collision", blockedByACollision, bundle.CSV},
		{"policy", blockedByAPolicy, bundle.CSV},
		{"quota", blockedByAQuota, bundle.CSV},
		{"terminating", blockedByATerminatingNamespace, bundle.CSV},
	}
}

// TestABlockedInstallIsSilent listens to the API server while installs wait, each for another reason.
func TestABlockedInstallIsSilent(t *testing.T) {
	t.Parallel()
	all := blockages()
	tenants, releases := make([]*env.Tenant, len(all)), make([]func(), len(all))
	users := map[string]string{}
	namespaces := map[string]string{}
	for i, b := range all {
		tn := cluster.Tenant(t)
		releases[i] = b.block(tn)
		tenants[i] = tn
		namespaces[tn.Namespace] = b.name
		users[scoped.Username(tn.Account.Namespace, tn.Account.Name)] = b.name
	}
	about := func(e audit.Event) string {
		if e.Object != nil && e.Object.Resource == "leases" || e.Verb == "watch" {
			return ""
		}
		if b := users[e.User.Username]; b != "" {
			return b
		}
		if cluster.Self().Is(e) && e.Object != nil {
			return namespaces[e.Object.Namespace]
		}
		return ""
	}
	wait(t, settling)
	_, from, err := cluster.AuditedFrom(t.Context(), 0, func(audit.Event) bool { return false })
	require.NoError(t, err)
	wait(t, silence)
	var sent []string
	_, _, err = cluster.AuditedFrom(t.Context(), from, func(e audit.Event) bool {
		if b := about(e); b != "" {
			sent = append(sent, fmt.Sprintf("%s: %s %s %s", b, e.UserAgent, e.Verb, e.RequestURI))
		}
		return false
	})
	require.NoError(t, err)
	sent = withoutOneRound(sent, "policy", "quota", "terminating")
	slices.Sort(sent)
	assert.Empty(t, sent, "%d requests:\n%s", len(sent), strings.Join(slices.Compact(slices.Clone(sent)), "\n"))

	for i, b := range all {
		releases[i]()
		settles(tenants[i], b.installs)
	}
}

// withoutOneRound leaves out one retry of each of the installs that no watch can wake: pauses double up to five minutes, so that at
// most one falls into the silence. A retry writes nothing and reads each object once.
func withoutOneRound(sent []string, retried ...string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(sent, func(request string) bool {
		source, rest, _ := strings.Cut(request, ": ")
		writes := strings.Contains(rest, " patch ") && !strings.Contains(rest, "dryRun=All")
		if !slices.Contains(retried, source) || writes || seen[request] {
			return false
		}
		seen[request] = true
		return true
	})
}

// wait listens for a while: that nothing happens cannot be waited for.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// refusedBy waits until the plan tells that objects are refused.
func refusedBy(tn *env.Tenant, text string) {
	tn.T.Helper()
	require.Contains(tn.T, tn.ObjectsRefused(), text)
}

// permitted has all rights for the sample and subscribes to it.
func permitted(tn *env.Tenant) {
	tn.T.Helper()
	grantSample(tn, tn.Namespace)
	tn.Catalog("catalog", image(catalogSample))
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)
}

func blockedByRBAC(tn *env.Tenant) func() {
	tn.Catalog("catalog", image(catalogSample))
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)
	tn.PermissionsMissing()
	return func() { grantSample(tn, tn.Namespace) }
}

// blockedByADryRun is an upgrade that hands objects over to another owner, for which some clusters ask for the
// right to delete them.
func blockedByADryRun(tn *env.Tenant) func() {
	rules := func(verbs ...string) []rbacv1.PolicyRule {
		usual := func(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: append([]string{"get", "create", "patch"}, verbs...)}
		}
		remove := []string{"delete"}
		return []rbacv1.PolicyRule{
			usual("", verbs, "serviceaccounts"), usual("apps", remove, "deployments"), usual(rbacv1.GroupName, remove, "roles", "rolebindings"),
			usual(operatorsv1alpha1.GroupName, remove, "clusterserviceversions", "installplans"),
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"operatorconditions"}, Verbs: []string{"get", "update", "patch"}},
		}
	}
	full := tn.Grant(tn.Namespace, rules("delete")...)
	tn.Publish("catalog", "a.v1.0.0 stable")
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("catalog", "a", "stable")
	settles(tn, "a.v1.0.0")
	tn.Grant(tn.Namespace, rules()...)
	require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), full))
	tn.Publish("catalog", "a.v1.0.0 stable", "a.v2.0.0 stable replaces=a.v1.0.0")
	says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, "delete")
	return tn.GrantReleases
}

func blockedByAPolicy(tn *env.Tenant) func() {
	b := tn.Refuse(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "sample-operator-defaults"}})
	permitted(tn)
	refusedBy(tn, "blocked by the test")
	return func() { b.Remove(); touch(tn) }
}

func blockedByAQuota(tn *env.Tenant) func() {
	quota := &corev1.ResourceQuota{ObjectMeta: tn.Meta("none"), Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/services": resource.MustParse("0")}}}
	tn.Create(quota)
	tn.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, tn.Get(quota.Name, quota))
		assert.NotEmpty(c, quota.Status.Hard)
	})
	permitted(tn)
	refusedBy(tn, "exceeded quota: none")
	return func() {
		require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), quota))
		touch(tn)
	}
}

// blockedByATerminatingNamespace has a target in which nothing can be created any longer.
func blockedByATerminatingNamespace(tn *env.Tenant) func() {
	other := tn.Other(nil)
	grantSample(tn, tn.Namespace, other)
	stays := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "stays", Finalizers: []string{"remit.dev/test"}}}
	tn.Create(stays)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
	require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), ns))
	tn.T.Cleanup(func() {
		_ = cluster.Client.Patch(tn.T.Context(), stays, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	})
	tn.Catalog("catalog", image(catalogSample))
	og := tn.Group(env.AccountName, tn.Namespace, other)
	subscribe(tn)
	tn.Eventually(func(c *assert.CollectT) { assert.NotEmpty(c, tn.Plan(c).Status.Message) })
	return func() {
		require.NoError(tn.T, tn.Get(og.Name, og))
		before := og.DeepCopy()
		og.Spec.TargetNamespaces = []string{tn.Namespace}
		require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), og, client.MergeFrom(before)))
	}
}

func blockedByACollision(tn *env.Tenant) func() {
	theirs := &corev1.ServiceAccount{ObjectMeta: tn.Meta("sample-operator")}
	tn.Create(theirs)
	permitted(tn)
	refusedBy(tn, "exists and is not ours")
	return func() {
		require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), theirs))
		touch(tn)
	}
}

func blockedByAnUnservedKind(tn *env.Tenant) func() {
	grantSample(tn, tn.Namespace)
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{"autoscaling.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	tn.Catalog("catalog", image("unknown-kind"))
	tn.Group(env.AccountName, tn.Namespace)
	subscribe(tn)
	tn.Eventually(func(c *assert.CollectT) { assert.Contains(c, tn.Plan(c).Status.Message, "not found on the cluster") })
	return func() { reinstall(tn) }
}

func blockedByAMissingAccount(tn *env.Tenant) func() {
	sa := &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}
	require.NoError(tn.T, cluster.Client.Delete(tn.T.Context(), sa))
	permitted(tn)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "ServiceAccountNotFound", "")
	return func() { tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}) }
}

func blockedByEnrollment(tn *env.Tenant) func() {
	tn.Withdraw()
	permitted(tn)
	tn.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled", "")
	return tn.Enrol
}

// blockedAsACSV is a ClusterServiceVersion that a person makes, whose account lacks the operator's rights.
func blockedAsACSV(tn *env.Tenant) func() {
	v, err := env.NewVariant()
	require.NoError(tn.T, err)
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(tn.T, runtime.DefaultUnstructuredConverter.FromUnstructured(v[env.FileCSV].Object, csv))
	csv.Namespace = tn.Namespace
	tn.Group(env.AccountName, tn.Namespace)
	tn.Create(csv)
	tn.Eventually(func(c *assert.CollectT) {
		assert.Contains(c, tn.CSV(c, bundle.CSV).Status.Message, "does not hold")
	})
	return func() { reinstall(tn) }
}

// touch wakes a plan for which nothing can be watched: what it waits for is tried again after minutes.
func touch(tn *env.Tenant) {
	tn.T.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(tn.T, tn.Get("group", og))
	before := og.DeepCopy()
	og.Annotations = map[string]string{"test": "wake"}
	require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), og, client.MergeFrom(before)))
}

// reinstall replaces what is blocked by an install of the sample that is not.
func reinstall(tn *env.Tenant) {
	tn.T.Helper()
	for _, kind := range []client.Object{&operatorsv1alpha1.Subscription{}, &operatorsv1alpha1.InstallPlan{}, &operatorsv1alpha1.ClusterServiceVersion{},
		&operatorsv1.OperatorGroup{}, &operatorsv1alpha1.CatalogSource{}} {
		require.NoError(tn.T, cluster.Client.DeleteAllOf(tn.T.Context(), kind, client.InNamespace(tn.Namespace)))
	}
	tn.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(tn.Get(bundle.CSV, &operatorsv1alpha1.ClusterServiceVersion{})))
	})
	permitted(tn)
}
