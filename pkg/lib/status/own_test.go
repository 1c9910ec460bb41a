package status

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Regression test: a plan whose message differs each time, for example one from a webhook, was reconciled in an endless
// loop.
func TestOwnStatusesAreDropped(t *testing.T) {
	var own Own
	before := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 1, ResourceVersion: "1"}}
	change := func(edit func(*operatorsv1alpha1.InstallPlan)) *operatorsv1alpha1.InstallPlan {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		after.Status.Message = "refused"
		edit(after)
		return after
	}
	passes := func(after client.Object) bool {
		return own.DropStatuses().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	written := change(func(*operatorsv1alpha1.InstallPlan) {})
	require.True(t, passes(written), "the writer of the status is unknown")
	require.NoError(t, own.Record(written))
	require.False(t, passes(written))
	for name, edit := range map[string]func(*operatorsv1alpha1.InstallPlan){
		"another status": func(ip *operatorsv1alpha1.InstallPlan) { ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete },
		"approval":       func(ip *operatorsv1alpha1.InstallPlan) { ip.Generation, ip.Spec.Approved = 2, true },
		"annotations":    func(ip *operatorsv1alpha1.InstallPlan) { ip.Annotations = map[string]string{"a": "b"} },
		"labels":         func(ip *operatorsv1alpha1.InstallPlan) { ip.Labels = map[string]string{"a": "b"} },
		"finalizers":     func(ip *operatorsv1alpha1.InstallPlan) { ip.Finalizers = []string{"a.b/c"} },
		"deletion":       func(ip *operatorsv1alpha1.InstallPlan) { ip.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"recreated":      func(ip *operatorsv1alpha1.InstallPlan) { ip.UID = "v" },
		"a resync":       func(ip *operatorsv1alpha1.InstallPlan) { ip.ResourceVersion = "1" },
	} {
		require.True(t, passes(change(edit)), name)
	}
	own.Forget(types.NamespacedName{Namespace: "ns", Name: "p"})
	require.True(t, passes(written))
}

func TestTextsAreDropped(t *testing.T) {
	type status = operatorsv1alpha1.ClusterServiceVersionStatus
	at := func(seconds int64) *metav1.Time { return &metav1.Time{Time: time.Unix(seconds, 0)} }
	before := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u", ResourceVersion: "1"}}
	before.Status = status{Phase: "Failed", Reason: "r", Message: "refused: 1", LastUpdateTime: at(1), CertsRotateAt: at(9),
		Conditions: []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: "Failed", Message: "refused: 1", LastUpdateTime: at(1)}},
		RequirementStatus: []operatorsv1alpha1.RequirementStatus{{Name: "a", Status: "Present", Message: "refused: 1",
			Dependents: []operatorsv1alpha1.DependentStatus{{Status: "NotSatisfied", Message: "refused: 1"}}}}}
	for name, row := range map[string]struct {
		edit   func(*status)
		passes bool
	}{
		"a message":                       {func(s *status) { s.Message, s.LastUpdateTime = "refused: 2", at(2) }, false},
		"the message of a condition":      {func(s *status) { s.Conditions[0].Message, s.Conditions[0].LastUpdateTime = "refused: 2", nil }, false},
		"the message of a requirement":    {func(s *status) { s.RequirementStatus[0].Message = "refused: 2" }, false},
		"the message of a dependent":      {func(s *status) { s.RequirementStatus[0].Dependents[0].Message = "refused: 2" }, false},
		"a phase":                         {func(s *status) { s.Phase, s.Message = "Pending", "refused: 2" }, true},
		"a reason":                        {func(s *status) { s.Reason = "s" }, true},
		"the status of a dependent":       {func(s *status) { s.RequirementStatus[0].Dependents[0].Status = "Satisfied" }, true},
		"another condition":               {func(s *status) { s.Conditions = append(s.Conditions, s.Conditions[0]) }, true},
		"no dependents":                   {func(s *status) { s.RequirementStatus[0].Dependents = nil }, true},
		"a time that decides what is due": {func(s *status) { s.CertsRotateAt = at(10) }, true},
		"a time that is missing":          {func(s *status) { s.CertsRotateAt = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var own Own
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			row.edit(&after.Status)
			update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
			require.True(t, own.DropTexts().Update(update), "another client wrote it")
			require.NoError(t, own.Record(after))
			require.Equal(t, row.passes, own.DropTexts().Update(update))
			require.Equal(t, row.passes, DropTexts().Update(update), "regardless of who wrote it")
			after.Annotations = map[string]string{"a": "b"}
			require.True(t, own.DropTexts().Update(update))
			require.True(t, DropTexts().Update(update))
		})
	}
}

func TestTextsOfObjectsWithoutATypeAreDropped(t *testing.T) {
	object := func(version string, status map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		u.SetResourceVersion(version)
		return u
	}
	before := object("1", map[string]any{"message": "refused: 1", "reason": "r", "conditions": []any{map[string]any{"message": "refused: 1", "n": int64(1)}}})
	drops := func(after client.Object) bool {
		var own Own
		require.NoError(t, own.Record(after))
		return !own.DropTexts().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	require.True(t, drops(object("2", map[string]any{"message": "refused: 2", "reason": "r", "conditions": []any{map[string]any{"message": "refused: 2", "n": int64(1)}}})))
	require.False(t, drops(object("2", map[string]any{"message": "refused: 2", "reason": "s", "conditions": []any{map[string]any{"message": "refused: 2", "n": int64(1)}}})))
	require.False(t, drops(object("2", map[string]any{"message": "refused: 2", "reason": "r", "conditions": []any{map[string]any{"message": "refused: 2", "n": int64(2)}}})))
	require.False(t, drops(object("2", map[string]any{"reason": "r", "conditions": []any{}, "new": ""})))
}

// A reconcile with an outdated object would otherwise wait for an event that was dropped.
func TestAnObjectWithDroppedTextsIsReadAgain(t *testing.T) {
	node := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n"}}
	c := fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).Build()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	for _, row := range []struct {
		edit func(*corev1.PodStatus)
		want time.Duration
	}{
		{func(s *corev1.PodStatus) { s.Message = "refused: 1" }, CacheLag},
		{func(s *corev1.PodStatus) { s.Message, s.Phase = "refused: 2", corev1.PodFailed }, 0},
	} {
		var r Replaced
		after := node.DeepCopy()
		row.edit(&after.Status)
		old := node.DeepCopy()
		require.NoError(t, r.Patch(t.Context(), c, node, after))
		require.True(t, r.Has(old))
		require.Equal(t, row.want, r.Delay(old))
		require.Equal(t, row.want == 0, r.DropTexts().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: after}))
		node = after
	}
}
