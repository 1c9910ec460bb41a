package compact

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unsafe"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// sameMemory reports whether two equal strings share memory.
func sameMemory(a, b string) bool { return a == b && unsafe.StringData(a) == unsafe.StringData(b) }

func role(name string) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{strings.Clone("olm.managed"): strings.Clone("true")}},
		Rules:      append(make([]rbacv1.PolicyRule, 0, 4), rbacv1.PolicyRule{Verbs: []string{strings.Clone("get")}}),
	}
}

func keyOf(m map[string]string) string {
	for key := range m {
		return key
	}
	return ""
}

func TestStringsShareMemory(t *testing.T) {
	var s Strings
	a, b := role("a"), role("b")
	s.Compact(a)
	s.Compact(b)
	require.Equal(t, role("a"), a)
	require.Equal(t, role("b"), b)
	require.True(t, sameMemory(a.Rules[0].Verbs[0], b.Rules[0].Verbs[0]))
	require.True(t, sameMemory(keyOf(a.Labels), keyOf(b.Labels)), "keys of maps")
	require.True(t, sameMemory(a.Labels["olm.managed"], b.Labels["olm.managed"]), "values of maps")
	require.Equal(t, 1, cap(a.Rules), "unused capacity is removed")
}

func TestUnstructuredObjectsShareMemory(t *testing.T) {
	var s Strings
	decoded := func() *unstructured.Unstructured {
		out := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(`{"kind":"Widget","apiVersion":"x/v1","spec":{"names":["first",1,null,{"a":"second"}]}}`), out))
		return out
	}
	a, b := decoded(), decoded()
	s.Compact(a)
	s.Compact(b)
	require.Equal(t, decoded(), a)
	require.True(t, sameMemory(a.GetKind(), b.GetKind()))
	names := func(u *unstructured.Unstructured) []any { return u.Object["spec"].(map[string]any)["names"].([]any) }
	require.True(t, sameMemory(names(a)[0].(string), names(b)[0].(string)))
	require.True(t, sameMemory(names(a)[3].(map[string]any)["a"].(string), names(b)[3].(map[string]any)["a"].(string)))
}

// The values of objects of any shape stay the same.
func TestValuesDoNotChange(t *testing.T) {
	var s Strings
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), serializer.NewCodecFactory(scheme)).NumElements(0, 9).MaxDepth(14)
	for range 20 {
		deployment, csv, pod := &appsv1.Deployment{}, &operatorsv1alpha1.ClusterServiceVersion{}, &corev1.Pod{}
		fill.Fill(deployment)
		fill.Fill(csv)
		fill.Fill(pod)
		was := []any{deployment.DeepCopy(), csv.DeepCopy(), pod.DeepCopy()}
		for range 2 { // informers can transform an object twice
			s.Compact(deployment)
			s.Compact(csv)
			s.Compact(pod)
		}
		require.Equal(t, was, []any{deployment, csv, pod})
	}
}

func TestSharedStringsAreLimited(t *testing.T) {
	var s Strings
	for i := range 3 * maxStrings {
		s.share(fmt.Sprint("name-", i))
		require.LessOrEqual(t, len(s.known), maxStrings)
	}
	for i := range 100 {
		s.share(strings.Repeat("x", maxLength-i))
		require.LessOrEqual(t, s.bytes, maxBytes)
	}
	before := len(s.known)
	s.share(strings.Repeat("y", maxLength+1))
	require.Len(t, s.known, before, "very long strings are not kept")
}

// Informers of all kinds share the strings, and tenants can write large objects of some kinds.
func TestALargeObjectDoesNotBlockOthers(t *testing.T) {
	attempts := 0
	for ; attempts < 10 && !isSeenUnfinished(); attempts++ { // the goroutine that looks may be scheduled too late
	}
	require.Less(t, attempts, 10, "the lock is free while an object is visited")
}

// isSeenUnfinished visits a large object, and reports whether the lock was free in the meantime.
func isSeenUnfinished() bool {
	var s Strings
	large := &rbacv1.PolicyRule{Verbs: slices.Repeat([]string{"x"}, 2_000_000)}
	large.Verbs[0], large.Verbs[len(large.Verbs)-1] = "first", "last"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Compact(large)
	}()
	begun, done := false, false
	for !begun {
		s.mu.Lock()
		_, begun = s.known["first"]
		_, done = s.known["last"]
		s.mu.Unlock()
	}
	<-ended
	return !done
}

func BenchmarkCompact(b *testing.B) {
	var s Strings
	text, err := json.Marshal(role("a"))
	require.NoError(b, err)
	for b.Loop() {
		obj := &rbacv1.Role{}
		require.NoError(b, json.Unmarshal(text, obj))
		s.Compact(obj)
	}
}
