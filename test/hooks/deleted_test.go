package hooks

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
)

// atOnce is how long automatic recreation may take. After that, the status must report the deletion.
const atOnce = 5 * time.Second

// made lists the kinds of objects that an install creates, in the order in which the test deletes them. After the
// InstallPlan is deleted, the status cannot report other missing objects until the version is installed again, so the
// plan and the CSV come first.
var made = []schema.GroupVersionKind{
	{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"},
	{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"},
	{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
}

// existing returns all objects of the kinds in made, keyed by UID.
func existing(tn *env.Tenant) map[types.UID]metav1.PartialObjectMetadata {
	tn.T.Helper()
	out := map[types.UID]metav1.PartialObjectMetadata{}
	for _, kind := range made {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		require.NoError(tn.T, tn.Cluster.Client.List(tn.T.Context(), list))
		for _, obj := range list.Items {
			obj.SetGroupVersionKind(kind)
			out[obj.UID] = obj
		}
	}
	return out
}

// TestRecreatesDeletedObjectsOrReportsThem deletes the objects of an operator one at a time, and checks that each of
// them is recreated or that the status reports it.
func TestRecreatesDeletedObjectsOrReportsThem(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	tn := c.Tenant(t)
	needsOf(tn, bundlev2.FS(), rbac.ClusterScope)
	tn.Catalog("catalog", image(catalogBoth))
	tn.Group(env.AccountName)
	before := existing(tn)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	tn.Succeeded(bundlev2.CSV)
	tn.Complete()
	objects := existing(tn)
	maps.DeleteFunc(objects, func(uid types.UID, _ metav1.PartialObjectMetadata) bool { _, was := before[uid]; return was })
	seen := map[string]bool{}
	for _, obj := range slices.SortedFunc(maps.Values(objects), byKind) {
		seen[obj.Kind] = true
		t.Logf("%-32s %-60s %s", obj.Kind, obj.Name, afterDeletion(tn, obj))
	}
	for _, kind := range []string{"ClusterServiceVersion", "InstallPlan", "Deployment", "Service", "Secret", "ConfigMap", "ServiceAccount", "Role", "RoleBinding",
		"ClusterRole", "ClusterRoleBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService", "CustomResourceDefinition"} {
		require.True(t, seen[kind], kind)
	}
}

// byKind compares objects by the order of their kinds in made.
func byKind(a, b metav1.PartialObjectMetadata) int {
	return cmp.Or(cmp.Compare(slices.Index(made, a.GroupVersionKind()), slices.Index(made, b.GroupVersionKind())), strings.Compare(a.Name, b.Name))
}

// afterDeletion deletes an object and returns how soon it was recreated, or else what the status reports. If the status
// reports a remedy, afterDeletion also applies it.
func afterDeletion(tn *env.Tenant, obj metav1.PartialObjectMetadata) string {
	tn.T.Helper()
	var begun time.Time
	tn.Eventually(func(c *assert.CollectT) { // the deletion of an earlier object may also have affected this one
		begun = time.Now()
		if assert.NoError(c, tn.Cluster.Client.Get(tn.T.Context(), client.ObjectKeyFromObject(&obj), &obj)) {
			assert.NoError(c, tn.Cluster.Client.Delete(tn.T.Context(), &obj))
		}
	})
	back := func() bool { return isBack(tn, obj) && succeededNow(tn) }
	for time.Since(begun) < atOnce {
		if back() {
			return "recreated after " + time.Since(begun).Round(100*time.Millisecond).String()
		}
		time.Sleep(100 * time.Millisecond)
	}
	var lines []string
	comesBack := false
	tn.Eventually(func(c *assert.CollectT) { // on a busy machine, recreation takes longer
		if comesBack = back(); comesBack {
			return
		}
		report := tn.RemitStatus()
		lines = slices.DeleteFunc(strings.Split(report, "\n"), func(line string) bool {
			return !strings.Contains(line, obj.Name) || !strings.Contains(line, "was deleted")
		})
		assert.NotEmpty(c, lines, "%s %s: %s", obj.Kind, obj.Name, report)
	})
	if comesBack {
		return "recreated after " + time.Since(begun).Round(100*time.Millisecond).String()
	}
	if strings.Contains(lines[0], "kubectl delete csv") {
		require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), tn.CSV(tn.T, bundlev2.CSV)))
	}
	if obj.Kind == "Secret" {
		wake := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"test":"wake"}}}`))
		require.NoError(tn.T, tn.Cluster.Client.Patch(tn.T.Context(), tn.CSV(tn.T, bundlev2.CSV), wake))
	}
	if obj.Kind != "InstallPlan" {
		tn.Eventually(func(c *assert.CollectT) { assert.True(c, back(), "%s %s: %s", obj.Kind, obj.Name, lines[0]) })
	}
	return strings.TrimSpace(lines[0])
}

func isBack(tn *env.Tenant, obj metav1.PartialObjectMetadata) bool {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(obj.GroupVersionKind())
	err := tn.Cluster.Client.Get(tn.T.Context(), client.ObjectKeyFromObject(&obj), now)
	return err == nil && now.UID != obj.UID && now.DeletionTimestamp == nil
}

func succeededNow(tn *env.Tenant) bool {
	got := &operatorsv1alpha1.ClusterServiceVersion{}
	return tn.Get(bundlev2.CSV, got) == nil && got.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded
}
