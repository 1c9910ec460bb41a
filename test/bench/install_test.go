package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	// installs is the number of operators that are installed one after the other: enough for a stable median, but few
	// enough to finish within half a minute.
	installs = 15
	// bareApplies is the number of operators whose objects are applied without Remit, for comparison.
	bareApplies = 5
	// aftermath is how long requests are recorded after the installs.
	aftermath = time.Minute
	// maxInstallRequests is the maximum number of requests of one bounded install, by the programs and as the account.
	maxInstallRequests = 30
	// patience is the timeout of a single install, with a margin for slow machines.
	patience = 5 * time.Minute
)

func image(n int) string { return fmt.Sprintf("catalogs.test/small-%d", n) }

// small makes a variant of the sample bundle independent of other installs. No other install creates its
// CustomResourceDefinition, and the Pods of its image become Ready without running a process.
func small(v env.Variant, n int) {
	v.SetGroup(fmt.Sprintf("small-%d.remit.dev", n))
	v.SetImage("images.test/small:1")
}

// tenant returns a namespace that is prepared for a Subscription to the nth catalog. It has a CatalogSource and an
// account with exactly the permissions that the install needs.
func tenant(b testing.TB, n int) *env.Tenant {
	b.Helper()
	tn := cluster(b).Tenant(b)
	tn.GrantAll(tn.Needs(content(b, n), bundle.Package, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Catalog("catalog", image(n))
	return tn
}

// ready waits until the tenant's catalog is ready.
func ready(tn *env.Tenant) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		source := &operatorsv1alpha1.CatalogSource{}
		assert.NoError(c, tn.Get("catalog", source))
		if assert.NotNil(c, source.Status.GRPCConnectionState) {
			assert.Equal(c, "READY", source.Status.GRPCConnectionState.LastObservedState)
		}
	})
}

// succeeding calls do and returns how long it takes until the CSV of each tenant has succeeded.
func succeeding(b *testing.B, tenants []*env.Tenant, do func()) []time.Duration {
	b.Helper()
	var namespaces []string
	for _, tn := range tenants {
		namespaces = append(namespaces, tn.Namespace)
	}
	return timed(b, &operatorsv1alpha1.ClusterServiceVersionList{}, namespaces, func(obj client.Object) string {
		if csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion); ok && csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded {
			return csv.Namespace
		}
		return ""
	}, do)
}

// timed calls do and returns how long it takes until a watch has reported an object for each of the keys.
func timed(b *testing.B, list client.ObjectList, keys []string, key func(client.Object) string, do func()) []time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	waiting := map[string]bool{}
	for _, k := range keys {
		waiting[k] = true
	}
	watch, err := cluster(b).Client.Watch(ctx, list)
	require.NoError(b, err)
	defer watch.Stop()
	var out []time.Duration
	begin := time.Now()
	go do()
	for len(waiting) > 0 {
		e, ok := <-watch.ResultChan()
		require.True(b, ok, "still waiting for %v", waiting)
		if obj, ok := e.Object.(client.Object); ok && waiting[key(obj)] {
			delete(waiting, key(obj))
			out = append(out, time.Since(begin))
		}
	}
	return out
}

func subscribe(tn *env.Tenant) {
	err := tn.Cluster.Client.Create(context.Background(), &operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta("small"),
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: "catalog", CatalogSourceNamespace: tn.Namespace, Package: bundle.Package, Channel: bundle.Channel,
		}})
	assert.NoError(tn.T, err)
}

// BenchmarkInstall measures the installs of small operators one after the other, each in its own bounded namespace.
//
// It compares the time with that of a client that applies the same objects one after the other and waits until the Deployment is
// available.
func BenchmarkInstall(b *testing.B) {
	var times, bare []time.Duration
	var requests []int
	for range b.N {
		var tenants []*env.Tenant
		for n := range installs {
			tn := tenant(b, n)
			ready(tn)
			quiet(b)
			from := mark(b)
			times = append(times, succeeding(b, []*env.Tenant{tn}, func() { subscribe(tn) })...)
			tn.Succeeded(bundle.CSV)
			quiet(b)
			sent := between(b, from, mark(b))
			requests = append(requests, len(sent))
			tenants = append(tenants, tn)
			if n == installs-1 {
				report(fmt.Sprintf("Requests of one install (%d):", len(sent)), sent.table())
				report("In order, with the start and the duration in milliseconds:", sent.sequence())
			}
		}
		for n, tn := range tenants[:bareApplies] {
			bare = append(bare, applied(b, tn, n))
		}
	}
	median := reportInstalls(b, times, requests)
	ratio := float64(quantile(times, 0.5)) / float64(quantile(bare, 0.5))
	b.ReportMetric(quantile(bare, 0.5).Seconds(), "s/median-bare")
	b.ReportMetric(ratio, "times-bare")
	record(row{name: fmt.Sprintf("one install: median / maximum of %d", installs), result: inSeconds(times, 0.5, 1), bare: inSeconds(bare, 0.5, 1)},
		row{name: "one install: its median in multiples of the bare apply", result: fmt.Sprintf("%.1f", ratio), limit: "≤ 2"},
		row{name: fmt.Sprintf("one install: requests, median / maximum of %d", installs), result: spread(requests), limit: fmt.Sprintf("median ≤ %d", maxInstallRequests)})
	require.LessOrEqual(b, median, maxInstallRequests)
}

// spread returns the median and the maximum of the counts.
func spread(counts []int) string {
	counts = slices.Sorted(slices.Values(counts))
	return fmt.Sprintf("%d / %d", counts[len(counts)/2], counts[len(counts)-1])
}

// reportInstalls reports how long the installs took and how many requests each of them sent. It returns the median number of
// requests.
func reportInstalls(b *testing.B, times []time.Duration, counts []int) (median int) {
	b.Helper()
	counts = slices.Sorted(slices.Values(counts))
	median = counts[len(counts)/2]
	b.ReportMetric(quantile(times, 0.5).Seconds(), "s/median")
	b.ReportMetric(quantile(times, 1).Seconds(), "s/max")
	b.ReportMetric(float64(median), "requests/median")
	b.ReportMetric(float64(counts[len(counts)-1]), "requests/max")
	b.ReportMetric(0, "ns/op")
	return median
}

// applied removes the operator that a tenant has installed from the nth catalog, applies the same objects to another namespace as an
// account with the same permissions, and returns how long it takes until the Deployment is available.
func applied(b *testing.B, from *env.Tenant, n int) time.Duration {
	b.Helper()
	c := cluster(b)
	x := newBare(b, installed(b, from), n)
	for _, obj := range append(slices.Clone(x.objs), apply.Reference(corev1.SchemeGroupVersion.WithKind("Namespace"), "", from.Namespace)) {
		if obj.GetNamespace() == "" {
			require.NoError(b, c.Client.Delete(b.Context(), obj.DeepCopy()))
			x.Eventually(func(t *assert.CollectT) {
				assert.True(t, apierrors.IsNotFound(c.Client.Get(b.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy())))
			})
		}
	}
	quiet(b)
	return applying(b, []*bare{x})[0]
}

// bare is a namespace that Remit ignores, and the objects of an operator, to be applied by an account that has the permissions to
// install it.
type bare struct {
	*env.Tenant
	objs    []*unstructured.Unstructured
	account client.Client
}

// newBare returns a new namespace for objects that an install from the nth catalog has created.
func newBare(b *testing.B, live []unstructured.Unstructured, n int) *bare {
	b.Helper()
	x := &bare{Tenant: cluster(b).Tenant(b)}
	for i := range live {
		x.objs = append(x.objs, bareObject(live[i].DeepCopy(), x.Namespace))
	}
	x.Create(&operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "group", Annotations: map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}},
		Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: env.AccountName, TargetNamespaces: []string{x.Namespace}}})
	x.GrantAll(x.Needs(content(b, n), bundle.Package, x.Namespace))
	x.Grant(x.Namespace, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{env.AccountName}, Verbs: []string{"impersonate"}})
	config := x.Cluster.Config()
	config.Impersonate.UserName = scoped.Username(x.Account.Namespace, x.Account.Name)
	var err error
	// With the administrator's mapper, the account does not have to discover the API, as the programs do not.
	x.account, err = client.New(config, client.Options{Scheme: x.Cluster.Client.Scheme(), Mapper: x.Cluster.Client.RESTMapper()})
	require.NoError(b, err)
	return x
}

// apply applies the objects, one after the other.
func (x *bare) apply() {
	for _, obj := range x.objs {
		assert.NoError(x.T, x.account.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("bare")), obj.GetKind())
	}
}

// applying applies the objects of all namespaces at the same time, and returns how long it takes until each Deployment is available.
func applying(b *testing.B, all []*bare) []time.Duration {
	b.Helper()
	var namespaces []string
	for _, x := range all {
		namespaces = append(namespaces, x.Namespace)
	}
	return timed(b, &appsv1.DeploymentList{}, namespaces, func(obj client.Object) string {
		if d, ok := obj.(*appsv1.Deployment); ok && d.Status.AvailableReplicas > 0 {
			return d.Namespace
		}
		return ""
	}, func() {
		for _, x := range all {
			go x.apply()
		}
	})
}

// installed returns the objects that the installs in a namespace have created, in the order in which they were written.
func installed(b *testing.B, tn *env.Tenant) []unstructured.Unstructured {
	b.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(b, tn.Get(bundle.CSV, csv))
	var out []unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{
		operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion"), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"), corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Service"),
		rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		var selected client.ListOption = client.MatchingLabels{names.LabelLineage: csv.Labels[names.LabelLineage]}
		if kind.Group == apiextensionsv1.GroupName { // several lineages may share it
			selected = client.MatchingFields{metav1.ObjectNameField: csv.Spec.CustomResourceDefinitions.Owned[0].Name}
		}
		require.NoError(b, tn.Cluster.Client.List(b.Context(), list, selected))
		require.Len(b, list.Items, 1, kind.Kind)
		out = append(out, list.Items[0])
	}
	return out
}

// bareObject returns a copy of an object for the given namespace, without the fields that the API server has set.
func bareObject(live *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := apply.Reference(live.GroupVersionKind(), "", live.GetName())
	if live.GetNamespace() != "" {
		out.SetNamespace(namespace)
	}
	for key, value := range live.Object {
		if key != "metadata" && key != "status" {
			out.Object[key] = value
		}
	}
	unstructured.RemoveNestedField(out.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(out.Object, "spec", "clusterIPs")
	if subjects, ok := out.Object["subjects"].([]any); ok {
		for _, s := range subjects {
			s.(map[string]any)["namespace"] = namespace //nolint:forcetypeassert // the API server returned it
		}
	}
	return out
}
