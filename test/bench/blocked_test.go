package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// churn is the number of unrelated RBAC changes that are made while all installs are blocked.
	churn = 500
	// blockedFor is how long the benchmark records requests, and blockedForTest how long the test does. Recording never
	// ends before all changes have been made.
	blockedFor     = time.Minute
	blockedForTest = 3 * time.Second
	// betweenRetries is how long BenchmarkBlockedBy waits before it records requests. The recorded minute then lies
	// between the eighth retry of installs that no watch can wake, 128 seconds after the first, and the ninth, 256 seconds
	// after the first.
	betweenRetries = 135 * time.Second
)

// TestUnrelatedChangesWakeNothing checks the only result that is the same on any machine: unrelated changes cause no
// reconciles and no requests.
func TestUnrelatedChangesWakeNothing(t *testing.T) {
	b := newBlocked(t)
	woken, sent := b.listen(blockedForTest)
	require.Empty(t, woken)
	require.Empty(t, sent.table())
	b.unblock()
}

// BenchmarkBlocked counts reconciles and requests while all installs wait for permissions and unrelated RBAC objects
// change.
func BenchmarkBlocked(b *testing.B) {
	var woken map[string]int
	var sent requests
	for range b.N {
		all := newBlocked(b)
		woken, sent = all.listen(blockedFor)
		report(fmt.Sprintf("Requests in %s blocked (%d):", blockedFor, len(sent)), sent.table())
		all.unblock()
	}
	looks := 0
	for _, n := range woken {
		looks += n
	}
	b.ReportMetric(float64(len(sent)), "requests/minute-blocked")
	b.ReportMetric(float64(looks), "reconciles/minute-blocked")
	b.ReportMetric(0, "ns/op")
	record(row{name: fmt.Sprintf("blocked installs: requests / reconciles during %d unrelated changes", churn), result: fmt.Sprintf("%d / %d", len(sent), looks), limit: "0 / 0"})
}

// BenchmarkBlockedBy counts the requests that each blocked install causes per minute, grouped by the finding that
// blocks it. Installs that no watch can wake are retried after pauses that double up to five minutes, so the measured
// minute lies between two retries.
func BenchmarkBlockedBy(b *testing.B) {
	sent := map[string]requests{}
	for range b.N {
		sent = blockedBy(b)
	}
	var lines []string
	for _, source := range blockage.Findings() {
		lines = append(lines, fmt.Sprintf("%-10s %d", source.Name, len(sent[source.Name])))
		lines = append(lines, sent[source.Name].table()...)
		b.ReportMetric(float64(len(sent[source.Name])), "requests/minute-by-"+source.Name)
		record(row{name: fmt.Sprintf("install blocked by %s: requests in the minute after the eighth retry", source.Name), result: fmt.Sprint(len(sent[source.Name]))})
	}
	report(fmt.Sprintf("Requests in %s while blocked, by source:", blockedFor), lines)
	b.ReportMetric(0, "ns/op")
}

// blockedBy blocks one install for each finding, records requests, unblocks the installs, and returns the requests,
// keyed by the name of the finding.
func blockedBy(tb testing.TB) map[string]requests {
	tb.Helper()
	all := blockage.Findings()
	tenants, releases, of := make([]*env.Tenant, len(all)), make([]func(), len(all)), map[string]string{}
	for i, source := range all {
		tenants[i] = cluster(tb).Tenant(tb)
		releases[i] = source.Block(tenants[i])
		of[tenants[i].Namespace] = source.Name
	}
	time.Sleep(betweenRetries)
	from := mark(tb)
	time.Sleep(blockedFor)
	sent := map[string]requests{}
	for _, e := range between(tb, from, mark(tb)) {
		_, account, _ := strings.Cut(e.User.Username, "system:serviceaccount:")
		namespace, _, _ := strings.Cut(account, ":")
		if e.Object != nil && of[namespace] == "" {
			namespace = e.Object.Namespace
		}
		if name := of[namespace]; name != "" {
			sent[name] = append(sent[name], e)
		}
	}
	for i, source := range all {
		releases[i]()
		tenants[i].Succeeded(source.Installs)
	}
	return sent
}

// blocked contains a plan and a CSV that wait for permissions, an OperatorGroup that waits for its account's enrollment, and an
// installed operator. It also contains ClusterExtensions: one that waits for permissions, one that waits for the enrollment of
// its user, and one that is installed.
type blocked struct {
	tb                          testing.TB
	plan, csv, group, installed *env.Tenant
	// missing, unenrolled and settled are ClusterExtensions.
	missing, unenrolled, settled *env.Extension
	// needs are the permissions that the plan's account is missing.
	needs []rbacv1.PolicyRule
}

func newBlocked(tb testing.TB) *blocked {
	tb.Helper()
	b := &blocked{tb: tb, installed: tenant(tb, 0), plan: cluster(tb).Tenant(tb), csv: cluster(tb).Tenant(tb), group: cluster(tb).Tenant(tb)}
	subscribe(b.installed)
	b.installed.Succeeded(bundle.CSV)

	b.needs = b.plan.GrantAllButNamespaced(content(tb, 0), bundle.Package)
	b.plan.Group(env.AccountName, b.plan.Namespace)
	b.plan.Catalog("catalog", image(0))
	subscribe(b.plan)
	b.plan.PermissionsMissing()

	b.csv.Group(env.AccountName, b.csv.Namespace)
	b.csv.Create(csvOf(tb, b.csv))
	b.csv.Eventually(func(c *assert.CollectT) {
		got := b.csv.CSV(c, bundle.CSV)
		assert.Equal(c, operatorsv1alpha1.CSVPhasePending, got.Status.Phase)
		assert.Contains(c, got.Status.Message, "is missing permissions")
	})

	b.group.Withdraw()
	b.group.Group(env.AccountName, b.group.Namespace)
	b.group.GroupSays("group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled", "")
	b.extend()
	quiet(tb)
	return b
}

// extend creates the ClusterExtensions.
func (b *blocked) extend() {
	b.tb.Helper()
	tinyCatalog(b.tb)
	b.settled = granted(b.tb, tiny)
	extend(b.settled, tiny)
	b.settled.Installed("1.0.0")

	b.missing = cluster(b.tb).Extension(b.tb)
	enroll(b.missing)
	extend(b.missing, tiny)
	b.missing.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)

	b.unenrolled = cluster(b.tb).Extension(b.tb)
	extend(b.unenrolled, tiny)
	b.unenrolled.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
}

// tenants returns the namespaces of all objects. In those of the ClusterExtensions, it creates an account; the others
// already have one.
func (b *blocked) tenants() []*env.Tenant {
	b.tb.Helper()
	out := []*env.Tenant{b.plan, b.csv, b.group, b.installed}
	for _, x := range []*env.Extension{b.missing, b.unenrolled, b.settled} {
		tn := &env.Tenant{T: b.tb, Cluster: x.Cluster, Namespace: x.Name}
		tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)})
		out = append(out, tn)
	}
	return out
}

func csvOf(tb testing.TB, tn *env.Tenant) *operatorsv1alpha1.ClusterServiceVersion {
	tb.Helper()
	v, err := env.NewVariant()
	require.NoError(tb, err)
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(tb, runtime.DefaultUnstructuredConverter.FromUnstructured(v[env.FileCSV].Object, csv))
	csv.Namespace = tn.Namespace
	return csv
}

// listen makes unrelated RBAC changes and returns the number of reconciles of each controller and the requests within
// the window.
func (b *blocked) listen(window time.Duration) (woken map[string]int, sent requests) {
	b.tb.Helper()
	tenants := b.tenants()
	time.Sleep(eventRetry)
	before := b.asleep()
	from, over := mark(b.tb), time.After(window)
	for n := range churn {
		b.changes()[n%len(b.changes())](tenants[n%len(tenants)], fmt.Sprint("churn-", n))
	}
	<-over
	after, err := cluster(b.tb).Reconciles(b.tb.Context())
	require.NoError(b.tb, err)
	maps.DeleteFunc(after, func(controller string, n int) bool { return n == before[controller] })
	return after, between(b.tb, from, mark(b.tb))
}

// asleep waits until nothing is reconciled for a while, and returns the number of reconciles of each controller.
func (b *blocked) asleep() map[string]int {
	b.tb.Helper()
	for before := map[string]int(nil); ; {
		now, err := cluster(b.tb).Reconciles(b.tb.Context())
		require.NoError(b.tb, err)
		if maps.Equal(before, now) {
			return now
		}
		before = now
		time.Sleep(stillness)
	}
}

// changes returns changes that do not affect what the waiting objects need: they change the permissions of other
// subjects, or only the metadata of objects that grant permissions. The number of changes and the number of tenants
// have no common divisor, so every combination occurs.
func (b *blocked) changes() []func(tn *env.Tenant, name string) {
	others := func(tn *env.Tenant) []rbacv1.Subject {
		return []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Namespace, Name: "another"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: "elsewhere", Name: env.AccountName},
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "people"},
		}
	}
	to := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "churn"}
	}
	everywhere := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	return []func(tn *env.Tenant, name string){
		func(tn *env.Tenant, name string) { tn.Create(&rbacv1.Role{ObjectMeta: tn.Meta(name), Rules: b.needs}) },
		func(tn *env.Tenant, name string) {
			tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta(name), Subjects: others(tn), RoleRef: to("Role")})
		},
		func(tn *env.Tenant, name string) {
			tn.Create(&rbacv1.ClusterRole{ObjectMeta: everywhere(name), Rules: b.needs})
		},
		func(tn *env.Tenant, name string) {
			tn.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere(name), Subjects: others(tn), RoleRef: to("ClusterRole")})
		},
		func(_ *env.Tenant, name string) { // grants to a tenant's account in a namespace that is not one of its targets
			b.plan.Create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.plan.Namespace, Name: env.AccountName}}, RoleRef: to("Role")})
		},
		func(tn *env.Tenant, name string) { tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(name)}) },
		func(tn *env.Tenant, name string) {
			b.label(&corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}, name)
		},
		func(tn *env.Tenant, name string) {
			b.label(&corev1.Namespace{ObjectMeta: everywhere(tn.Namespace)}, name)
		},
		func(tn *env.Tenant, name string) { b.labelGrants(tn, &rbacv1.RoleList{}, name) },
		func(tn *env.Tenant, name string) { b.labelGrants(tn, &rbacv1.RoleBindingList{}, name) },
		func(tn *env.Tenant, name string) { b.labelGrants(tn, &rbacv1.ClusterRoleList{}, name) },
		func(tn *env.Tenant, name string) { b.labelGrants(tn, &rbacv1.ClusterRoleBindingList{}, name) },
		func(_ *env.Tenant, name string) { b.plan.Create(&corev1.Namespace{ObjectMeta: everywhere(name)}) },
	}
}

// labelGrants labels the objects that grant permissions to the tenant's account or let Remit request the account's
// tokens.
func (b *blocked) labelGrants(tn *env.Tenant, list client.ObjectList, value string) {
	b.tb.Helper()
	require.NoError(b.tb, tn.Cluster.Client.List(b.tb.Context(), list))
	require.NoError(b.tb, meta.EachListItem(list, func(o runtime.Object) error {
		obj, ok := o.(client.Object)
		require.True(b.tb, ok)
		own := obj.GetNamespace() == tn.Namespace || obj.GetNamespace() == rbac.ClusterScope && strings.Contains(obj.GetName(), tn.Namespace)
		if own && slices.ContainsFunc([]string{"grant-", "remit-enrollment-"}, func(p string) bool { return strings.HasPrefix(obj.GetName(), p) }) {
			b.label(obj, value)
		}
		return nil
	}))
}

func (b *blocked) label(obj client.Object, value string) {
	b.tb.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"test.remit.dev/churn":%q},"annotations":{"test.remit.dev/churn":%q}}}`, value, value)
	require.NoError(b.tb, cluster(b.tb).Client.Patch(b.tb.Context(), obj, client.RawPatch("application/merge-patch+json", patch)))
}

// unblock grants what the objects are waiting for and checks that they proceed, which proves that they were waiting for
// nothing else.
func (b *blocked) unblock() {
	b.plan.Grant(b.plan.Namespace, b.needs...)
	b.plan.Complete()
	b.csv.Grant(b.csv.Namespace, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	b.csv.Eventually(func(c *assert.CollectT) {
		assert.NotContains(c, b.csv.CSV(c, bundle.CSV).Status.Message, "is missing permissions")
	})
	b.group.Enroll()
	b.group.GroupSays("group", "AccountUsable", metav1.ConditionTrue, "Enrolled", "")
	enroll(b.unenrolled)
	for _, x := range []*env.Extension{b.missing, b.unenrolled} {
		x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
		x.Paste(preflight.FileGrant)
		x.Installed("1.0.0")
	}
}
