package budget_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func pod() *corev1.PodSpec {
	return &corev1.PodSpec{
		NodeSelector: map[string]string{"a": "b", "c": strings.Repeat("d", 1000)},
		Containers: []corev1.Container{{
			Name: "x", Args: []string{"a", "", "c"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "B"}},
			Resources:     corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}},
		}},
		TerminationGracePeriodSeconds: ptr.To(int64(5)),
	}
}

func TestTextIsALowerBound(t *testing.T) {
	when := metav1.Now()
	for name, value := range map[string]any{
		"a Pod": pod(), "nothing": nil, "a text": "a", "times": &metav1.ObjectMeta{Name: "x", CreationTimestamp: when, DeletionTimestamp: &when},
		"raw": &apiextensionsv1.JSON{Raw: []byte(`{"a":[1,2,3]}`)}, "bytes": &corev1.Secret{Data: map[string][]byte{"a": make([]byte, 100)}},
		"unstructured": map[string]any{"a": []any{map[string]any{}, "b", int64(1), true, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(value)
			require.NoError(t, err)
			require.LessOrEqual(t, budget.Of(value).Text, int64(len(text))+1)
			require.GreaterOrEqual(t, 3*budget.Of(value).Text+6, int64(len(text))/2, "but not a trivial one")
		})
	}
	require.Greater(t, budget.Of(&apiextensionsv1.JSON{Raw: make([]byte, 5000)}).Text, int64(5000))
}

// What decoding a text of "{}" allocates and keeps is the reason for the package.
func TestMemoryIsThatOfDecodedValues(t *testing.T) {
	text := []byte("[" + strings.TrimSuffix(strings.Repeat("{},", 10_000), ",") + "]")
	for name, into := range map[string]any{
		"volumes": &[]corev1.Volume{}, "tolerations": &[]corev1.Toleration{}, "maps": &[]map[string]string{}, "any": &[]any{}, "images": &[]operatorsv1alpha1.RelatedImage{},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			require.NoError(t, json.Unmarshal(text, into))
			runtime.GC()
			runtime.ReadMemStats(&after)
			kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			require.Greater(t, budget.Of(into).Memory, kept/4)
			require.Less(t, budget.Of(into).Memory, 4*kept+1<<16)
			runtime.KeepAlive(into)
		})
	}
}

func TestABudgetRefusesBeforeAnythingIsAllocated(t *testing.T) {
	one := budget.Of(pod())
	require.Equal(t, one.Plus(one), one.Times(2))
	b := budget.New("the Pods", 10*one.Memory)
	require.NoError(t, b.Draw(one.Times(5)))
	require.NoError(t, b.DrawObject("Pod x", one.Times(5)))
	err := b.Draw(budget.OfText(1000))
	require.ErrorContains(t, err, "the Pods would need at least ")
	require.Equal(t, one.Times(10).Plus(budget.OfText(1000)), b.Drawn())
	require.NoError(t, (*budget.Budget)(nil).Draw(one.Times(1000)))

	err = budget.New("the Pods", 1<<40).DrawObject(`Pod "x"`, budget.OfText(budget.MaxObjectBytes))
	require.EqualError(t, err, `Pod "x" would need at least 1.5 MiB of space in the API server; at most 1.5 MiB are allowed`)
}

func TestListsAreLimitedAtAnyDepth(t *testing.T) {
	config := &operatorsv1alpha1.SubscriptionConfig{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Preference: corev1.NodeSelectorTerm{
			MatchFields: make([]corev1.NodeSelectorRequirement, 3),
		}}},
	}}}
	require.NoError(t, budget.CheckLists(config, 3))
	require.NoError(t, budget.CheckLists((*operatorsv1alpha1.SubscriptionConfig)(nil), 3))
	require.EqualError(t, budget.CheckLists(config, 2),
		"affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.preference.matchFields has 3 entries; at most 2 are allowed")
	config.Annotations = map[string]string{"a": "", "b": "", "c": ""}
	config.Affinity = nil
	require.EqualError(t, budget.CheckLists(config, 2), "annotations has 3 entries; at most 2 are allowed")
	config.Annotations = nil
	config.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"a": {}, "b": {}, "c": {}}}
	require.ErrorContains(t, budget.CheckLists(config, 2), "resources.limits has 3 entries")
}

func TestRefusedObjectsSayHowLargeTheyAre(t *testing.T) {
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}}
	require.NoError(t, budget.Refused(sub))
	shared := sub.Annotations
	budget.Refuse(sub, 123<<20)
	require.Equal(t, map[string]string{"a": "b"}, shared, "the map may be shared")
	require.ErrorContains(t, budget.Refused(sub), "the object needs 123.0 MiB of memory")
	budget.Refuse(sub, 124<<20)
	require.ErrorContains(t, budget.Refused(sub), "124.0 MiB")
	sub.Annotations[names.AnnotationTooLarge] = "text\n---"
	require.NoError(t, budget.Refused(sub))
}

// In a list of {}, an entry of a ClusterServiceVersion has few bytes in memory, but all its fields as JSON and as a map.
func TestFieldsThatAreNotOmittedCount(t *testing.T) {
	object := &metav1.ObjectMeta{OwnerReferences: make([]metav1.OwnerReference, 10_000)}
	text, err := json.Marshal(object)
	require.NoError(t, err)
	size := budget.Of(object)
	require.LessOrEqual(t, size.Text, int64(len(text)))
	require.Greater(t, size.Text, int64(len(text))*9/10)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var maps map[string]any
	require.NoError(t, json.Unmarshal(text, &maps))
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Greater(t, 3*size.Decoded(), int64(after.HeapAlloc-before.HeapAlloc))
	require.Greater(t, size.Decoded(), 2*size.Memory)
	runtime.KeepAlive(maps)
}
