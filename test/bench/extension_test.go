package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

const (
	// extensionGrants is the number of ClusterExtensions that are unblocked one after the other.
	extensionGrants = 110
	// extensionsTogether is the number of ClusterExtensions that are created at the same time.
	extensionsTogether = 100
	// maxRequests is the maximum number of requests, by the program and as the identity, for installing a small bundle.
	maxRequests = 40
)

// tiny is a package that any number of ClusterExtensions can install, because it has no CustomResourceDefinition.
const tiny = "tiny"

func tinyCatalog(b testing.TB) {
	b.Helper()
	c := cluster(b) // starts the registry
	c.ServeCatalog(b, shared.images, tiny, env.Releases(tiny+".v1.0.0 stable"))
}

// smallCatalog creates a ClusterCatalog with n packages whose names begin with its name. Each contains a variant of the sample
// bundle that is independent of other installs.
func smallCatalog(b testing.TB, name string, n int) (packages []string) {
	b.Helper()
	c := cluster(b) // starts the registry
	var content strings.Builder
	for i := range n {
		pkg := fmt.Sprintf("%s-%d", name, i)
		v, err := env.NewVariant()
		require.NoError(b, err)
		v.SetGroup(pkg + ".remit.dev")
		v.SetImage("images.test/small:1")
		text, err := v.FBC(pkg)
		require.NoError(b, err)
		content.WriteString(text)
		packages = append(packages, pkg)
	}
	c.ServeCatalog(b, shared.images, name, content.String())
	return packages
}

// granted returns a ClusterExtension that has not been created yet. Its user has exactly the permissions that "kubectl remit
// rbac" prints.
func granted(b testing.TB, pkg string) *env.Extension {
	b.Helper()
	x := cluster(b).Extension(b)
	out, notes, code := cluster(b).Remit(b, "rbac", "clusterextension", x.Name, "--package="+pkg, "--namespace="+x.Name)
	require.Zero(b, code, notes)
	cluster(b).Apply(b, env.Decode(b, out)...)
	return x
}

// extend creates the ClusterExtension, which is deleted at the end of the benchmark.
func extend(x *env.Extension, pkg string) {
	ext := env.NewClusterExtension(x.Name, pkg)
	x.T.Cleanup(func() { _ = x.Cluster.Client.Delete(context.Background(), ext.DeepCopy()) })
	assert.NoError(x.T, x.Cluster.Client.Create(context.Background(), ext.DeepCopy()))
}

// enroll lets the program act as the user of the ClusterExtension.
func enroll(x *env.Extension) {
	x.T.Helper()
	x.Create(scoped.ExtensionEnrollment(x.User(), x.Cluster.Home, scoped.ImpersonationConstrained)...)
}

// installing calls do and returns how long it takes until each of the ClusterExtensions is installed.
func installing(b *testing.B, all []*env.Extension, do func()) []time.Duration {
	b.Helper()
	var names []string
	for _, x := range all {
		names = append(names, x.Name)
	}
	return timed(b, &olmv1.ClusterExtensionList{}, names, func(obj client.Object) string {
		ext, ok := obj.(*olmv1.ClusterExtension)
		if !ok || ext.Status.Install == nil {
			return ""
		}
		for _, kind := range []string{olmv1.TypeProgressing, olmv1.TypeInstalled, olmv1.TypeAvailable} {
			if c := meta.FindStatusCondition(ext.Status.Conditions, kind); c == nil || c.Reason != olmv1.ReasonSucceeded {
				return ""
			}
		}
		return ext.Name
	}, do)
}

// BenchmarkExtensionStatus measures how long it takes until a new ClusterExtension, whose user is not enrolled, reports what
// its user is missing.
func BenchmarkExtensionStatus(b *testing.B) {
	var times []time.Duration
	for range b.N {
		tinyCatalog(b)
		for range installs {
			x := cluster(b).Extension(b)
			quiet(b)
			times = append(times, timed(b, &olmv1.ClusterExtensionList{}, []string{x.Name}, func(obj client.Object) string {
				if ext, ok := obj.(*olmv1.ClusterExtension); ok && len(ext.Status.Conditions) > 0 {
					return ext.Name
				}
				return ""
			}, func() { extend(x, tiny) })...)
			x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled)
		}
	}
	b.ReportMetric(quantile(times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(times, 1).Seconds(), "s/max")
	b.ReportMetric(0, "ns/op")
	record(row{name: fmt.Sprintf("ClusterExtension: until the status reports what is missing, median / maximum of %d", installs), result: inMillis(times, 0.5, 1), limit: "< 2 s"})
}

// BenchmarkExtensionGrant is BenchmarkGrant for ClusterExtensions without a ServiceAccount.
func BenchmarkExtensionGrant(b *testing.B) {
	times := map[string][]time.Duration{}
	refused := 0
	for range b.N {
		tinyCatalog(b)
		var all []*waitingExtension
		for n := range extensionGrants {
			all = append(all, newWaitingExtension(b, env.UserPieces()[n%len(env.UserPieces())]))
		}
		quiet(b)
		for _, w := range all {
			w.piece.Last(w.tn, w.rules)
			w.Installed("1.0.0")
		}
		events := written(b, cluster(b), 0)
		for _, w := range all {
			user := w.User().Username()
			took, refusals := toFirstWrite(b, events, user, func(e audit.Event) bool { return e.Impersonated != nil && e.Impersonated.Username == user })
			times[w.piece.Name] = append(times[w.piece.Name], took)
			refused += refusals
		}
	}
	all := reportGrants(b, fmt.Sprintf("From a grant to the next successful write as the user of a ClusterExtension, after %d refused writes in total:", refused), env.UserPieces(), times)
	b.ReportMetric(0, "ns/op")
	record(row{name: fmt.Sprintf("ClusterExtension: from a grant to the next write, p50 / p99 / maximum of %d", len(all)), result: inMillis(all, 0.5, 0.99, 1), limit: "p99 < 2 s"})
}

// waitingExtension is a ClusterExtension whose user needs one more RBAC change.
type waitingExtension struct {
	*env.Extension
	// tn is the namespace in which the user gets the rules.
	tn    *env.Tenant
	piece env.Piece
	rules []rbacv1.PolicyRule
}

// newWaitingExtension creates a ClusterExtension and grants the permissions in its report, except those in its namespace.
func newWaitingExtension(b *testing.B, piece env.Piece) *waitingExtension {
	b.Helper()
	x := cluster(b).Extension(b)
	w := &waitingExtension{Extension: x, tn: &env.Tenant{T: b, Cluster: x.Cluster, Namespace: x.Name, User: x.User().Username()}, piece: piece}
	enroll(x)
	extend(x, tiny)
	x.Says(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions)
	for _, obj := range x.Reported(preflight.FileGrant) {
		switch {
		case obj.GetNamespace() == rbac.ClusterScope:
			x.Cluster.Apply(b, obj)
		case obj.GetKind() == "Role":
			role := &rbacv1.Role{}
			require.NoError(b, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role))
			w.rules = append(w.rules, role.Rules...)
		}
	}
	require.NotEmpty(b, w.rules)
	piece.Before(w.tn, w.rules)
	return w
}

// BenchmarkExtensionInstall measures the installs of small operators one after the other, each with its own ClusterExtension
// without a ServiceAccount.
func BenchmarkExtensionInstall(b *testing.B) {
	var times []time.Duration
	var counts []int
	for range b.N {
		for i, pkg := range smallCatalog(b, "one", installs) {
			x := granted(b, pkg)
			quiet(b)
			from := mark(b)
			times = append(times, installing(b, []*env.Extension{x}, func() { extend(x, pkg) })...)
			quiet(b)
			sent := between(b, from, mark(b))
			counts = append(counts, len(sent))
			if i == installs-1 {
				report(fmt.Sprintf("Requests of one ClusterExtension (%d):", len(sent)), sent.table())
			}
		}
	}
	median := reportInstalls(b, times, counts)
	record(row{name: fmt.Sprintf("one ClusterExtension: median / maximum of %d", installs), result: inSeconds(times, 0.5, 1), limit: "median ≤ 1.0 s"},
		row{name: fmt.Sprintf("one ClusterExtension: requests, median / maximum of %d", installs), result: spread(counts), limit: fmt.Sprintf("median ≤ %d", maxRequests)})
	require.LessOrEqual(b, median, maxRequests)
}

// BenchmarkExtensionInstallTogether measures the installs of many ClusterExtensions that are created at the same time.
func BenchmarkExtensionInstallTogether(b *testing.B) {
	var times []time.Duration
	var sent, after requests
	for range b.N {
		packages := smallCatalog(b, "many", extensionsTogether)
		var all []*env.Extension
		for _, pkg := range packages {
			all = append(all, granted(b, pkg))
		}
		quiet(b)
		from := mark(b)
		times = installing(b, all, func() {
			for i, x := range all {
				go extend(x, packages[i])
			}
		})
		quiet(b)
		done := mark(b)
		sent = between(b, from, done)
		time.Sleep(aftermath)
		after = between(b, done, mark(b))
		report(fmt.Sprintf("Requests of %d concurrent ClusterExtensions (%d):", extensionsTogether, len(sent)), sent.table())
		report(fmt.Sprintf("Requests in the %s after them (%d):", aftermath, len(after)), after.table())
	}
	b.ReportMetric(quantile(times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(times, 1).Seconds(), "s/last")
	b.ReportMetric(float64(len(sent))/extensionsTogether, "requests/install")
	b.ReportMetric(float64(len(after)), "requests/minute-after")
	b.ReportMetric(0, "ns/op")
	subject := fmt.Sprintf("%d ClusterExtensions at once: ", extensionsTogether)
	record(row{name: subject + "until half / all are installed", result: inSeconds(times, 0.5, 1)},
		row{name: subject + "requests of each, on average", result: fmt.Sprintf("%.1f", float64(len(sent))/extensionsTogether), limit: fmt.Sprintf("≤ %d", maxRequests)},
		row{name: subject + "requests in the minute after them", result: fmt.Sprint(len(after)), limit: "0"})
	require.Empty(b, after.table())
}
