package csv

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/test/env/handlers"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

func TestTheWatchRecordsOrphaningDeletions(t *testing.T) {
	w := newRemoval(t)
	deleting := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "op.v1", UID: "1", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	orphaning := deleting.DeepCopy()
	orphaning.Finalizers = []string{metav1.FinalizerOrphanDependents}
	none := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
	w.r.secrets, w.r.replaced, w.r.rivals = &secretWatches{}, &status.Replaced{}, &rivals{}
	added := handlers.Of(t, deleting, w.client.Scheme(), func(mgr ctrl.Manager) error { return w.r.SetupWithManager(t.Context(), mgr, none) })
	for !w.r.orphaning.Includes(deleting) {
		select {
		case handler := <-added:
			handler.OnUpdate(deleting, orphaning)
		case <-time.After(10 * time.Second):
			require.Fail(t, "no watch records orphaning deletions")
		}
	}
}

func TestChangesWakeTheAffectedCSVs(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for _, namespace := range []string{"a", "b"} {
		c := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op.v1"}}
		c.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op"}}
		objects = append(objects, c, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"},
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{"target-of-" + namespace}}})
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	require.NoError(t, indexWakes(t.Context(), recorded.Indexes{Builder: builder}))
	c := builder.Build()
	r := &Reconciler{Options: Options{Client: c, Proofs: proofs.Keys()}, interests: &kit.Interests{}, rivals: &rivals{}}

	account := func(name string, labels map[string]string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels}}
	}
	withSecrets := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "op"}, Secrets: []corev1.ObjectReference{{Name: "s"}}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "a", Direct: true}, CSV: "op.v1", Proofs: proofs.Keys()}
	earlier, born := owner, metav1.Now()
	earlier.CSV = "op.v0"
	other := owner
	other.Namespace = "b"
	marked := owner.Labels()
	withoutComponent, withLabel := maps.Clone(marked), maps.Clone(marked)
	delete(withoutComponent, owner.ComponentLabel())
	withLabel["a"] = "b"
	role := func(labels map[string]string) client.Object {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "r", Labels: labels}}
	}
	own := func(owner ownerutil.Owner, edits ...func(*rbacv1.Role)) client.Object {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "r", UID: "1", CreationTimestamp: born}}
		proofs.Mark(role, owner)
		for _, edit := range edits {
			edit(role)
		}
		return role
	}
	unproven := func(r *rbacv1.Role) { r.Annotations = nil }
	revised := func(r *rbacv1.Role) { r.ResourceVersion = "2" }
	woken := request("a", "op.v1")
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []ctrl.Request
	}{
		{"the CSV's account is created", nil, account("acct", nil), woken},
		{"the CSV's account is deleted", account("acct", nil), nil, woken},
		{"the CSV's account is labeled", account("acct", nil), account("acct", marked), nil},
		{"the operator's ServiceAccount is created", nil, account("op", nil), woken},
		{"the operator's ServiceAccount loses its labels", account("op", marked), account("op", nil), woken},
		{"the operator's ServiceAccount loses its component label", account("op", marked), account("op", withoutComponent), woken},
		{"the operator's ServiceAccount gets another label", account("op", marked), account("op", withLabel), nil},
		{"the operator's ServiceAccount gets a Secret", account("op", nil), withSecrets, nil},
		{"another ServiceAccount is created", nil, account("other", nil), nil},
		{"a target is created", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target-of-a"}}, woken},
		{"another namespace is created", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, nil},
		{"the CSV's own role is deleted", own(owner), nil, woken},
		{"the CSV's own role is edited", own(owner), own(owner, func(r *rbacv1.Role) { r.Rules = []rbacv1.PolicyRule{{}} }), woken},
		{"the CSV's own role loses its labels", own(owner), own(owner, func(r *rbacv1.Role) { r.Labels = nil }), woken},
		{"the CSV's own role loses its proof", own(owner), own(owner, unproven), woken},
		{"the CSV's own role gets its proof back", own(owner, unproven), own(owner), woken},
		{"the CSV's own role is updated without a change", own(owner), own(owner, revised), nil},
		{"a role of an earlier version is deleted while the CSV waits", own(earlier), nil, woken},
		{"another owner's role with the CSV's labels is created", nil, role(marked), nil},
		{"another owner's role with the CSV's labels is edited", role(marked), own(owner, unproven), nil},
		{"another owner's role with the CSV's labels is deleted", role(marked), nil, nil},
		{"a role of another install gets the CSV's labels", own(other), own(other, func(r *rbacv1.Role) {
			r.Labels[names.LabelOwnerNamespace], r.Labels[names.LabelOwner] = "a", "op.v1"
		}), request("b", "op.v1")},
		{"another role is deleted", role(nil), nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ElementsMatch(t, row.want, r.Concerned(t.Context(), row.before, row.after))
		})
	}
}

// An index is computed for each change of a CSV, also of one that is not valid. That takes no memory for its many entries.
func TestTheIndexBuildsNoListsOfWhatACSVContains(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "op.v1"}}
	strategy := &csv.Spec.InstallStrategy.StrategySpec
	strategy.Permissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, 10_000)
	for i := range strategy.Permissions {
		strategy.Permissions[i].ServiceAccountName = fmt.Sprint("sa", i)
	}
	strategy.ClusterPermissions = strategy.Permissions
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			nameKeys(csv)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(1<<10), "bytes")
}

// The properties are decoded once for all Subscriptions that name a CSV.
func TestThePropertiesOfACSVAreDecodedOncePerReconcile(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, `,{"type":"olm.package","value":{"packageName":"p%d"}}`, i)
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Annotations: map[string]string{
		names.AnnotationProperties: `{"properties":[` + text.String()[1:] + `]}`}}}
	csv.Labels = map[string]string{names.LabelComponentPrefix + "demo.a": ""}
	named := &namedPackages{}
	got := named.packages(csv, nil)
	require.Len(t, got, 1+maxPackages)
	require.Equal(t, []string{"demo", "p0", "p1"}, got[:3])
	require.Equal(t, got, (*namedPackages)(nil).packages(csv, nil))
	require.Less(t, testing.AllocsPerRun(10, func() { named.packages(csv, nil) }), 20.0)
}
