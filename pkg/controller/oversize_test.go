package controller

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/rbac"
)

// stored is the size of the objects that users store in these tests: almost the most that the API server takes.
const stored = 1_400_000

// empty returns a list of empty entries of the given size as JSON.
func empty(size int) []byte {
	return append(append([]byte("["), bytes.Repeat([]byte("{},"), size/3)...), []byte("{}]")...)
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // a sync.Pool keeps what is in it during one collection, such as the 4 MB into which an object was encoded
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Three Subscriptions of 1.4 MB took 430 MiB in the caches.
func TestLargeSubscriptionsTakeLittleMemory(t *testing.T) {
	text := empty(stored)
	before := heap()
	var caches []client.Object
	for _, trim := range []func(client.Object){TrimForCatalog, TrimForOLM, nil} {
		for range 3 {
			sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"a": "b"}}}
			sub.Spec = &operatorsv1alpha1.SubscriptionSpec{Package: "demo", Channel: "stable", Config: &operatorsv1alpha1.SubscriptionConfig{}}
			require.NoError(t, json.Unmarshal(text, &sub.Spec.Config.Tolerations))
			sub.Status.InstalledCSV = "demo.v1"
			got := cached(t, trim, sub)
			require.Equal(t, &operatorsv1alpha1.SubscriptionSpec{Package: "demo", Channel: "stable"}, got.Spec)
			require.Equal(t, "demo.v1", got.Status.InstalledCSV)
			require.Equal(t, map[string]string{"a": "b"}, got.Labels)
			require.ErrorContains(t, budget.Refused(got), "MiB of memory, which is more than Remit keeps")
			caches = append(caches, got)
		}
	}
	require.Less(t, heap()-before, int64(4<<20))
	runtime.KeepAlive(caches)

	usual := &operatorsv1alpha1.Subscription{Spec: &operatorsv1alpha1.SubscriptionSpec{Config: &operatorsv1alpha1.SubscriptionConfig{Tolerations: make([]corev1.Toleration, 1_000)}}}
	require.NoError(t, budget.Refused(cached(t, TrimForOLM, usual)))
	require.Len(t, usual.Spec.Config.Tolerations, 1_000)
}

func TestLargeClusterServiceVersionsAreNotKept(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "demo.v1"}}
	csv.Spec.Replaces = "demo.v0"
	csv.Spec.InstallModes = []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true}}
	d := operatorsv1alpha1.StrategyDeploymentSpec{Name: "demo", Spec: appsv1.DeploymentSpec{}}
	require.NoError(t, json.Unmarshal(empty(stored), &d.Spec.Template.Spec.Volumes))
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{d}
	got := cached(t, TrimForOLM, csv.DeepCopy())
	require.ErrorContains(t, budget.Refused(got), "MiB of memory")
	require.Equal(t, operatorsv1alpha1.ClusterServiceVersionSpec{Replaces: "demo.v0", InstallModes: csv.Spec.InstallModes}, got.Spec)
	require.NoError(t, budget.Refused(cached(t, TrimForCatalog, csv)), "this program does not keep the Pods")

	long := csv.DeepCopy()
	require.NoError(t, json.Unmarshal([]byte(`"1.0.0-`+strings.Repeat("a.", stored/2-10)+`a"`), &long.Spec.Version))
	for _, trim := range []func(client.Object){TrimForCatalog, TrimForOLM} {
		got := cached(t, trim, long)
		require.ErrorContains(t, budget.Refused(got), "MiB of memory")
		require.Empty(t, got.Spec.Version.Pre)
	}
}

// Ten such objects took remit-olm to 917 MiB: each {} becomes a map with four entries in a Deployment, and in a patch.
func TestClusterServiceVersionsThatAreLargeAsMapsAreNotKept(t *testing.T) {
	for n, refused := range map[int]bool{5_000: false, 100_000: true} {
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "demo.v1"}}
		d := operatorsv1alpha1.StrategyDeploymentSpec{Name: "a"}
		d.Spec.Template.OwnerReferences = make([]metav1.OwnerReference, n)
		csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{d}
		require.Less(t, budget.Of(csv).Memory, int64(budget.MaxDecodedBytes))
		got := cached(t, TrimForOLM, csv)
		require.Equal(t, refused, budget.Refused(got) != nil)
	}
}

func TestLargeCatalogSourcesAreNotKept(t *testing.T) {
	source := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(`{"kind":"CatalogSource","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"c"},
"spec":{"sourceType":"grpc","image":"i","grpcPodConfig":{"tolerations":`+string(empty(stored))+`}}}`), &source.Object))
	got := cached(t, TrimForCatalog, source)
	require.ErrorContains(t, budget.Refused(got), "MiB of memory")
	require.Equal(t, map[string]any{"sourceType": "grpc", "image": "i"}, got.Object["spec"])
}

func TestCachesContainNoSecretsOfServiceAccounts(t *testing.T) {
	sa := &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Name: unread}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}
	require.Equal(t, []corev1.LocalObjectReference{{Name: "pull"}}, cached(t, nil, sa).ImagePullSecrets)
}

// Each Role of 50,000 rules took 8 to 13 MB in the cache of each program, and 80 of them more than its limit.
func TestRolesOfManyRulesTakeLittleMemory(t *testing.T) {
	rules := make([]rbacv1.PolicyRule, 50_000)
	equal := func(int) string { return "x" }
	for name, word := range map[string]func(int) string{"equal": equal, "different": strconv.Itoa} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			var caches []client.Object
			for range 3 {
				for i := range rules {
					rules[i] = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{word(i)}}
				}
				role := cached(t, TrimForOLM, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules})
				require.Len(t, role.Rules, 1)
				require.Len(t, cached(t, TrimForOLM, &rbacv1.ClusterRole{Rules: rules}).Rules, 1)
				require.Equal(t, name == "different", rbac.TooLarge(role.Rules))
				caches = append(caches, role)
			}
			clear(rules)
			require.Less(t, heap()-before, int64(1<<20))
			runtime.KeepAlive(caches)
		})
	}
	subjects := slices.Repeat([]rbacv1.Subject{{Kind: "User", Name: "a"}}, 12_000)
	require.Len(t, cached(t, TrimForCatalog, &rbacv1.RoleBinding{Subjects: subjects}).Subjects, 1)
	require.Len(t, cached(t, TrimForCatalog, &rbacv1.ClusterRoleBinding{Subjects: subjects}).Subjects, 1)
}
