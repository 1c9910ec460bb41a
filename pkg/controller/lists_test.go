package controller

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/copiedcsv"
	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// many returns a list as long as an object can have.
func many[T any](entry func(i int) T) []T {
	out := make([]T, 20_000)
	for i := range out {
		out[i] = entry(i)
	}
	return out
}

func text(i int) string { return fmt.Sprint("n", i) }

func owner(i int) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "A", Name: "a", UID: types.UID(fmt.Sprint(i % 2))}
}

// longLists returns an object of each kind with the lists that users can write without a limit.
func longLists() []client.Object {
	meta := metav1.ObjectMeta{Name: "x", OwnerReferences: many(owner), Finalizers: many(func(i int) string { return "a/" + text(i) })}
	long := strings.Repeat("x", 2_000)
	group := &operatorsv1.OperatorGroup{ObjectMeta: meta, Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: many(func(i int) string { return text(i) + long[:i%2_000/10] })}}
	group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: many(text)}}}
	group.Status.Namespaces = many(text)
	service := &corev1.Service{ObjectMeta: meta}
	service.Spec.Ports = many(func(i int) corev1.ServicePort { return corev1.ServicePort{Port: int32(i)} })
	d := &appsv1.Deployment{ObjectMeta: meta}
	d.Spec.Template.Spec.Containers = many(func(i int) corev1.Container { return corev1.Container{Name: text(i), Image: "i"} })
	c := &operatorsv2.OperatorCondition{ObjectMeta: meta}
	c.Spec = operatorsv2.OperatorConditionSpec{Deployments: many(text), ServiceAccounts: many(text),
		Conditions: many(func(i int) metav1.Condition { return metav1.Condition{Type: text(i)} })}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta, ImagePullSecrets: many(func(i int) corev1.LocalObjectReference {
			return corev1.LocalObjectReference{Name: text(i) + long[:i%2_000]}
		})}, group, service, d, c,
		&operatorsv1alpha1.InstallPlan{ObjectMeta: meta, Spec: operatorsv1alpha1.InstallPlanSpec{ClusterServiceVersionNames: many(text)}},
	}
}

// Hundreds of ServiceAccounts with as many pull secrets or owners as the API server stores took gigabytes in each program.
func TestLongListsTakeLittleMemory(t *testing.T) {
	for name, trim := range map[string]func(client.Object){"catalog": TrimForCatalog, "olm": TrimForOLM, "extension": nil} {
		for _, obj := range longLists() {
			if _, ok := obj.(*appsv1.Deployment); ok && trim == nil {
				continue // this program caches no Deployments
			}
			t.Run(fmt.Sprintf("%s %T", name, obj), func(t *testing.T) {
				before := heap()
				kept := cached(t, trim, obj)
				require.LessOrEqual(t, len(kept.GetOwnerReferences()), maxReferences)
				require.LessOrEqual(t, len(kept.GetFinalizers()), maxReferences)
				require.Less(t, budget.Of(kept).Memory, int64(384<<10))
				require.Less(t, heap()-before, int64(1<<20))
				runtime.KeepAlive(kept)
			})
		}
	}
}

func TestLongListsAreReportedAsBefore(t *testing.T) {
	group := longLists()[1].(*operatorsv1.OperatorGroup)
	lookup := scoped.Lookup{}
	_, want := lookup.Targets(t.Context(), group, nil)
	require.ErrorContains(t, want, "too many target namespaces")
	_, wantSelector := scoped.Selector(group)
	require.ErrorContains(t, wantSelector, "spec.selector has more than")
	got := cached(t, TrimForOLM, group)
	_, err := lookup.Targets(t.Context(), got, nil)
	require.Equal(t, want, err)
	_, err = scoped.Selector(got)
	require.Equal(t, wantSelector, err)
	require.False(t, scoped.TargetsAll(got))
	require.Greater(t, len(got.Status.Namespaces), scoped.MaxTargets, "a status that Remit writes differs, so the list is replaced")
	group.Spec.TargetNamespaces[15_000] = scoped.AllNamespaces
	require.True(t, scoped.TargetsAll(cached(t, TrimForCatalog, group)))

	c := longLists()[4].(*operatorsv2.OperatorCondition)
	c.Spec.Conditions[15_000] = metav1.Condition{Type: operatorsv2.Upgradeable, Status: metav1.ConditionFalse, Reason: "No"}
	c.Spec.Overrides = c.Spec.Conditions
	kept := cached(t, TrimForOLM, c)
	require.Equal(t, "No", condition.HeldBack(kept))
	require.Equal(t, condition.Observed(short(c)), condition.Observed(kept))

	source := &unstructured.Unstructured{Object: map[string]any{"kind": "CatalogSource", "apiVersion": "operators.coreos.com/v1alpha1",
		"spec": map[string]any{"image": "i", "secrets": slices.Repeat(many(func(i int) any { return text(i) }), 3)}}}
	refused := cached(t, TrimForCatalog, source)
	require.ErrorContains(t, budget.Refused(refused), "MiB of memory")
	require.Equal(t, map[string]any{"image": "i"}, refused.Object["spec"])
}

// short returns an OperatorCondition without most of the conditions that its status omits, because the search takes quadratic time.
func short(c *operatorsv2.OperatorCondition) *operatorsv2.OperatorCondition {
	out := &operatorsv2.OperatorCondition{ObjectMeta: c.ObjectMeta}
	out.Spec.Conditions = slices.Concat(c.Spec.Conditions[:100], c.Spec.Conditions[15_000:15_001])
	return out
}

// Lists of the lengths that Remit accepts are complete.
func TestUsualListsAreComplete(t *testing.T) {
	group := &operatorsv1.OperatorGroup{Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: many(text)[:scoped.MaxTargets]}}
	group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: many(text)[:scoped.MaxSelector-1]}}}
	group.Status.Namespaces, group.OwnerReferences = group.Spec.TargetNamespaces, many(owner)[:maxReferences]
	require.Equal(t, group, cached(t, TrimForOLM, group))
	plan := &operatorsv1alpha1.InstallPlan{Spec: operatorsv1alpha1.InstallPlanSpec{ClusterServiceVersionNames: many(text)[:copiedcsv.MaxPlanned]}}
	require.Equal(t, plan, cached(t, TrimForOLM, plan))
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Finalizers: many(text)[:2*maxReferences]}}
	require.Equal(t, csv.Finalizers, cached(t, TrimForOLM, csv).Finalizers, "a patch that removes Remit's finalizer contains the others")
	sa := &corev1.ServiceAccount{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "b"}, {Name: "a"}}}
	require.Equal(t, sa, cached(t, TrimForCatalog, sa))
	require.Empty(t, cached(t, TrimForOLM, sa).ImagePullSecrets, "this program pulls no images")
}
