package controller

import (
	"fmt"
	"maps"
	"strconv"
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

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	testproofs "github.com/remit-olm/remit/test/env/proofs"
)

// 300 ServiceAccounts, each with an annotation of 255 kB, took 100 MB in each program.
func TestLargeMetadataIsNotKept(t *testing.T) {
	component := names.LabelComponentPrefix + "demo.ns"
	annotations := map[string]string{"example.com/notes": strings.Repeat("x", 200_000), names.AnnotationProof: "p", names.AnnotationUndecodable: "u", names.AnnotationCAHashes: strings.Repeat("h", 50_000)}
	labels := map[string]string{names.LabelLineage: "l", component: ""}
	for i := range 10_000 {
		labels[fmt.Sprintf("example.com/%d", i)] = "x"
		labels[fmt.Sprintf("%sx%d", names.LabelComponentPrefix, i)] = ""
	}
	meta := metav1.ObjectMeta{Name: "x", Annotations: annotations, Labels: labels}
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta},
		&corev1.Namespace{ObjectMeta: meta}, &rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta},
	} {
		for _, trim := range []func(client.Object){nil, TrimForCatalog, TrimForOLM} {
			got := cached(t, trim, obj)
			require.Equal(t, map[string]string{names.AnnotationProof: "p", names.AnnotationUndecodable: "u"}, got.GetAnnotations(), "%T", obj)
			switch obj.(type) {
			case *corev1.Namespace:
				require.Equal(t, labels, got.GetLabels(), "any label can be selected")
			case *appsv1.Deployment, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
				require.LessOrEqual(t, len(got.GetLabels()), maxEntries)
				require.Equal(t, "l", got.GetLabels()[names.LabelLineage])
			default:
				require.Len(t, got.GetLabels(), 1+maxComponents, "%T", obj)
				require.Subset(t, got.GetLabels(), map[string]string{names.LabelLineage: "l", component: ""})
			}
		}
	}
	small := metav1.ObjectMeta{Annotations: map[string]string{"service.beta.openshift.io/serving-cert-secret-name": "s"}, Labels: map[string]string{"app": "demo"}}
	service := cached(t, TrimForOLM, &corev1.Service{ObjectMeta: small})
	require.Equal(t, small, service.ObjectMeta)
	other := cached(t, TrimForOLM, &corev1.ConfigMap{ObjectMeta: meta})
	require.Equal(t, annotations, other.Annotations, "another kind")
}

// What Remit has written is found in place although someone else has added large metadata, so that it is not written again.
func TestLargeMetadataOfOthersCausesNoWrites(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "ns"}, CSV: "demo.v1", Proofs: testproofs.Keys()}
	want, err := apply.Object(&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", Labels: owner.Labels()}})
	require.NoError(t, err)
	live := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "u"}}
	testproofs.Mark(live, owner)
	live.Annotations["example.com/notes"] = strings.Repeat("x", 200_000)
	for i := range 1_000 {
		live.Labels[fmt.Sprintf("example.com/%d", i)] = "x"
	}
	require.True(t, deployment.InPlace(cached(t, TrimForOLM, live), want, owner))
}

// 80 ClusterRoles of an account with 1.4 MB of labels each took as much memory as a program has. Those that aggregate are kept.
func TestManyLabelsOfClusterRolesTakeLittleMemory(t *testing.T) {
	labels := map[string]string{}
	for i := 0; i < stored; i += len(`"1234":"",`) {
		labels[strconv.FormatInt(int64(i), 36)] = ""
	}
	aggregating := map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true", "olm.opgroup.permissions/aggregate-to-x": "", names.LabelLineage: "l"}
	maps.Copy(labels, aggregating)
	for _, obj := range []client.Object{&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: labels}}, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: labels}}} {
		got := cached(t, TrimForOLM, obj)
		require.Less(t, budget.Of(got).Memory, int64(256<<10), "%T", obj)
		require.Len(t, got.GetLabels(), maxEntries-len(readLabels())+1)
		require.Subset(t, got.GetLabels(), aggregating)
	}
}

// requests returns one object of each kind with which a user of one namespace requests something.
func requests(meta metav1.ObjectMeta) []client.Object {
	source := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": map[string]any{"name": meta.Name}}}
	source.SetLabels(meta.Labels)
	source.SetAnnotations(meta.Annotations)
	return []client.Object{
		&operatorsv1alpha1.Subscription{ObjectMeta: meta}, &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: meta}, &operatorsv1alpha1.InstallPlan{ObjectMeta: meta},
		&operatorsv1.OperatorGroup{ObjectMeta: meta}, &operatorsv2.OperatorCondition{ObjectMeta: meta}, source,
	}
}

// 174,000 labels of a Subscription, which fit into an object, took 10 MB in each program.
func TestManyLabelsAndAnnotationsTakeLittleMemory(t *testing.T) {
	many := func(size int, more map[string]string) map[string]string {
		out := maps.Clone(more)
		for i := 0; i < size; i += len(`"1234":"",`) {
			out[strconv.FormatInt(int64(i), 36)] = ""
		}
		return out
	}
	labels := map[string]string{names.LabelCopiedFrom: "c", names.LabelLineage: "l", names.LabelAnyAccount: ""}
	annotations := map[string]string{names.AnnotationPlan: strings.Repeat("p", 10_000), names.AnnotationManagedBy: "m", names.AnnotationProof: "p"}
	few := many(900*len(`"1234":"",`), labels)
	for name, meta := range map[string]metav1.ObjectMeta{
		"labels":      {Name: "x", Labels: many(stored, labels), Annotations: annotations},
		"annotations": {Name: "x", Labels: labels, Annotations: many(maxAnnotations, annotations)},
		"few":         {Name: "x", Labels: few, Annotations: annotations},
	} {
		for _, obj := range append(requests(meta), &appsv1.Deployment{ObjectMeta: meta}) {
			for _, trim := range []func(client.Object){TrimForCatalog, TrimForOLM} {
				_, isDeployment := obj.(*appsv1.Deployment)
				got := cached(t, trim, obj)
				require.Less(t, budget.Of(got).Memory, int64(256<<10), "%s of %T", name, obj)
				require.Subset(t, got.GetLabels(), labels, "%s of %T", name, obj)
				require.True(t, isDeployment || got.GetAnnotations()[names.AnnotationManagedBy] == "m", "%s of %T", name, obj)
				require.Equal(t, name != "few" && !isDeployment, budget.Refused(got) != nil, "%s of %T", name, obj)
				if name == "few" {
					require.Equal(t, few, got.GetLabels(), "%T", obj)
				}
			}
		}
	}
}

func TestTheSmallestKeysAreKeptWithoutSortingAll(t *testing.T) {
	all := map[string]string{}
	for i := range 100_000 {
		all[fmt.Sprintf("k%06d", i)] = ""
	}
	even := func(key string) bool { return (key[len(key)-1]-'0')%2 == 0 }
	require.Equal(t, []string{"k000000", "k000002", "k000004"}, smallest(all, 3, even))
	require.Len(t, smallest(all, 60_000, even), 50_000)
	require.Empty(t, smallest(all, 0, even))
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			smallest(all, 1000, func(string) bool { return true })
		}
	})
	require.Less(t, allocated.AllocedBytesPerOp(), int64(128<<10), "only a few keys are held at the same time")
	require.NotZero(t, allocated.N)
}
