package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/products"
)

const (
	// maxKept is the memory that an object of a kind may take in a cache, whatever it contains.
	maxKept = 5 << 20
	// maxAnnotations is the size of the annotations that the API server stores.
	maxAnnotations = 256 << 10
)

// filled is an object with one list or map that has as many entries as the API server stores.
type filled struct {
	path string
	make func() client.Object
}

// filledObjects returns one object for each list and map in a type, including its metadata and status.
func filledObjects(empty client.Object) (out []filled) {
	t := reflect.TypeOf(empty).Elem()
	for i := range t.NumField() {
		part := t.Field(i)
		if part.Type.Kind() != reflect.Struct && part.Type.Kind() != reflect.Slice && part.Type.Kind() != reflect.Pointer || part.Name == "TypeMeta" {
			continue
		}
		for _, field := range products.Fields(reflect.StructOf([]reflect.StructField{{Name: part.Name, Type: part.Type, Tag: `json:"x"`}})) {
			size := stored
			if strings.HasSuffix(field.Path, "x.annotations") {
				size = maxAnnotations
			}
			out = append(out, filled{part.Name + strings.TrimPrefix(field.Path, "x"), func() client.Object {
				obj, _ := empty.DeepCopyObject().(client.Object)
				holder := reflect.New(reflect.StructOf([]reflect.StructField{{Name: part.Name, Type: part.Type}}))
				field.FillEmpty(holder.Interface(), size, 12<<20)
				reflect.ValueOf(obj).Elem().Field(i).Set(holder.Elem().Field(0))
				obj.SetName("x")
				return obj
			}})
		}
	}
	return out
}

// Three bytes of "{}," take up to hundreds of bytes in memory. A list that an API adds later is part of the walk.
func TestEachListTakesLittleMemoryInCaches(t *testing.T) {
	programs := map[string]func(client.Object){"catalog": TrimForCatalog, "olm": TrimForOLM, "extension": Trim}
	both := []client.Object{
		&operatorsv1alpha1.InstallPlan{}, &operatorsv1alpha1.ClusterServiceVersion{}, &operatorsv1alpha1.Subscription{}, &operatorsv1.OperatorGroup{},
		&operatorsv2.OperatorCondition{}, &corev1.ServiceAccount{}, &corev1.Service{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
	kinds := map[string][]client.Object{
		"catalog": both, "olm": append([]client.Object{&operatorsv1.Operator{}, &operatorsv1.OLMConfig{}, &appsv1.Deployment{}}, both...),
		"extension": {&olmv1.ClusterExtension{}, &olmv1.ClusterCatalog{}},
	}
	for program, trim := range programs {
		for _, kind := range kinds[program] {
			fields := filledObjects(kind)
			require.Greater(t, len(fields), 4)
			for _, field := range fields {
				most := int64(maxKept)
				switch kind.(type) {
				case *operatorsv1alpha1.ClusterServiceVersion, *olmv1.ClusterExtension, *olmv1.ClusterCatalog:
					most = budget.MaxDecodedBytes
				}
				obj := field.make()
				_, err := transform(trim)(obj)
				require.NoError(t, err)
				if kept := budget.Of(obj).Memory; kept > most {
					t.Errorf("%s: %T.%s takes %d KiB", program, kind, field.path, kept>>10)
				}
			}
		}
	}
}

// InstallPlans with empty conditions took 35 MiB each in two programs, and refused ClusterServiceVersions 28 MiB.
func TestConditionsTakeLittleMemory(t *testing.T) {
	text := empty(stored)
	for name, trim := range map[string]func(client.Object){"catalog": TrimForCatalog, "olm": TrimForOLM} {
		before := heap()
		var keep []client.Object
		for range 3 {
			plan, csv := &operatorsv1alpha1.InstallPlan{}, &operatorsv1alpha1.ClusterServiceVersion{}
			plan.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete
			require.NoError(t, json.Unmarshal(text, &plan.Status.Conditions))
			require.NoError(t, json.Unmarshal(text, &csv.Status.Conditions))
			last := &csv.Status.Conditions[len(csv.Status.Conditions)-1]
			last.Phase, plan.Status.Conditions[0].Type = operatorsv1alpha1.CSVPhaseSucceeded, operatorsv1alpha1.InstallPlanInstalled
			for _, obj := range []client.Object{plan, csv} {
				kept := cached(t, trim, obj)
				require.NoError(t, budget.Refused(kept), "a status makes no object unusable")
				keep = append(keep, kept)
			}
			require.Equal(t, operatorsv1alpha1.InstallPlanInstalled, keep[len(keep)-2].(*operatorsv1alpha1.InstallPlan).Status.Conditions[0].Type)
			history := keep[len(keep)-1].(*operatorsv1alpha1.ClusterServiceVersion).Status.Conditions
			require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, history[len(history)-1].Phase, "the last one decides")
		}
		require.Less(t, heap()-before, int64(1<<20), name)
		runtime.KeepAlive(keep)
	}
}

// What remains of an object that is refused because of its spec is small as well.
func TestRefusedObjectsTakeLittleMemory(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Spec.Keywords = make([]string, 1_000_000)
	csv.Spec.InstallModes = make([]operatorsv1alpha1.InstallMode, 200_000)
	csv.Status.Phase, csv.Status.RequirementStatus = operatorsv1alpha1.CSVPhaseSucceeded, make([]operatorsv1alpha1.RequirementStatus, 10_000)
	csv.Status.Cleanup.PendingDeletion = make([]operatorsv1alpha1.ResourceList, 20_000)
	got := cached(t, TrimForOLM, csv)
	require.Error(t, budget.Refused(got))
	require.Less(t, budget.Of(got).Memory, int64(32<<10))
	require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, "an installed version stays")

	ext := &olmv1.ClusterExtension{}
	ext.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "p", Selector: &metav1.LabelSelector{MatchExpressions: make([]metav1.LabelSelectorRequirement, 400_000)}}
	kept := cached(t, nil, ext)
	require.Error(t, budget.Refused(kept))
	require.Less(t, budget.Of(kept).Memory, int64(32<<10))
}

func TestStatusesOfRemitAreKept(t *testing.T) {
	plan := &operatorsv1alpha1.InstallPlan{}
	plan.Status.Phase, plan.Status.CatalogSources = operatorsv1alpha1.InstallPlanPhaseInstalling, []string{"a/b"}
	for i := range 4_000 { // more do not fit into an object
		plan.Status.Plan = append(plan.Status.Plan, &operatorsv1alpha1.Step{Resolving: "demo.v1", Status: operatorsv1alpha1.StepStatusCreated,
			Resource: operatorsv1alpha1.StepResource{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role", Name: fmt.Sprint("demo", i), Manifest: strings.Repeat("x", 200)}})
	}
	require.Equal(t, plan.Status, cached(t, TrimForCatalog, plan).Status)

	source := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(`{"kind":"CatalogSource","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"c"},
"spec":{"sourceType":"grpc","image":"i"},"status":{"message":"m","conditions":`+string(empty(stored))+`}}`), &source.Object))
	kept := cached(t, TrimForCatalog, source)
	require.NoError(t, budget.Refused(kept))
	require.Less(t, budget.Of(kept.Object).Memory, int64(32<<10))
	require.Equal(t, "m", kept.Object["status"].(map[string]any)["message"])
	require.NoError(t, json.Unmarshal([]byte(`{"status":{"other":`+string(empty(stored))+`}}`), &source.Object))
	require.Less(t, budget.Of(cached(t, TrimForCatalog, source).Object).Memory, int64(32<<10))
}

// A user who may write the status could otherwise hide the record behind other conditions, and Remit would remove it with them. The
// next user who changes the spec need not be allowed to use the account then.
func TestTheRecordOfAnAccountIsKept(t *testing.T) {
	record := operatorsv1alpha1.SubscriptionCondition{Type: names.ConditionAuthorUnchecked, Status: corev1.ConditionFalse, Message: "ServiceAccount a/b installs"}
	for _, at := range []int{0, maxConditions - 1, maxConditions, 20_000} {
		sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		sub.Status.Conditions = make([]operatorsv1alpha1.SubscriptionCondition, 20_001)
		sub.Status.Conditions[at] = record
		got := cached(t, TrimForCatalog, sub)
		require.Len(t, got.Status.Conditions, maxConditions)
		require.Equal(t, record, got.Status.GetCondition(names.ConditionAuthorUnchecked))

		for _, more := range []any{nil, strings.Repeat("x", 5<<20)} {
			conditions := make([]any, 20_001)
			for i := range conditions {
				conditions[i] = map[string]any{}
			}
			recorded := map[string]any{"type": names.ConditionAuthorUnchecked, "message": record.Message}
			conditions[at] = recorded
			source := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
				"metadata": map[string]any{"name": "x"}, "status": map[string]any{"conditions": conditions, "message": more}}}
			kept, _, err := unstructured.NestedSlice(cached(t, TrimForCatalog, source).Object, "status", "conditions")
			require.NoError(t, err)
			require.Len(t, kept, maxConditions)
			require.Contains(t, kept, any(recorded))
		}
	}
}
