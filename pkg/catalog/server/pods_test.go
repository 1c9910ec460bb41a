package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

type change func(p *corev1.Pod)

// pod returns a Pod of catalog cat. The first letter of its name determines its creation time.
func pod(name, hash string, changes ...change) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{names.LabelCatalogSource: "cat", names.LabelPodSpecHash: hash},
		CreationTimestamp: metav1.NewTime(time.Unix(int64((name + "a")[0]), 0)),
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}}
	for _, c := range changes {
		c(p)
	}
	return p
}

func ready(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func update(p *corev1.Pod) {
	p.Labels[names.LabelCatalogSource], p.Labels[names.LabelCatalogSourceUpdate] = "", "cat"
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func evicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
}

func waits(reason, message string) change {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

var crashing = waits("CrashLoopBackOff", "back-off 10s restarting failed container")

func TestDecide(t *testing.T) {
	const (
		nothing = ""
		serving = "serving"
		updates = "update"
	)
	for name, tt := range map[string]struct {
		pods    []*corev1.Pod
		hold    Hold
		create  string
		promote string
		delete  []string
		failed  string
	}{
		"no Pods":                          {create: serving},
		"no Pods, after too many failures": {hold: Hold{Serving: true}, create: nothing},
		"up to date":                       {pods: []*corev1.Pod{pod("a", "new", ready)}},
		"up to date, starting":             {pods: []*corev1.Pod{pod("a", "new")}},
		"up to date, crashing: the kubelet restarts it": {pods: []*corev1.Pod{pod("a", "new", crashing)}},
		"with another catalog's label":                  {pods: []*corev1.Pod{pod("a", "new", func(p *corev1.Pod) { p.Labels[names.LabelCatalogSource] = "dog" })}, create: serving},
		"evicted":                                       {pods: []*corev1.Pod{pod("a", "new", evicted)}, create: serving, delete: []string{"a"}},
		"evicted, after too many failures":              {pods: []*corev1.Pod{pod("a", "new", evicted)}, hold: Hold{Serving: true}, delete: []string{"a"}},
		"completed":                                     {pods: []*corev1.Pod{pod("a", "new", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, create: serving, delete: []string{"a"}},
		"being deleted, or on an unreachable node":      {pods: []*corev1.Pod{pod("a", "new", ready, terminating)}, create: serving},
		"two Pods: the ready Pod stays":                 {pods: []*corev1.Pod{pod("a", "new"), pod("b", "new", ready)}, delete: []string{"a"}},
		"two ready Pods: the older Pod stays":           {pods: []*corev1.Pod{pod("b", "new", ready), pod("a", "new", ready)}, delete: []string{"b"}},
		"an up-to-date Pod and outdated Pods":           {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new"), pod("c", "old", update)}, delete: []string{"a", "c"}},
		"outdated":                                      {pods: []*corev1.Pod{pod("a", "old", ready)}, create: updates},
		"outdated, after a failed update":               {pods: []*corev1.Pod{pod("a", "old", ready)}, hold: Hold{Update: true}},
		"outdated, with an outdated update":             {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "older", update, ready)}, create: updates, delete: []string{"b"}},
		"two outdated Pods":                             {pods: []*corev1.Pod{pod("a", "older"), pod("b", "old", ready)}, create: updates, delete: []string{"a"}},
		"a starting update":                             {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update)}},
		"an update that cannot be pulled":               {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update, waits("ImagePullBackOff", ""))}},
		"two starting updates":                          {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update), pod("c", "new", update)}, delete: []string{"c"}},
		"an update that is ready":                       {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update, ready)}, promote: "b", delete: []string{"a"}},
		"an update that crashes":                        {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update, crashing)}, delete: []string{"b"}, failed: "b"},
		"an update that failed":                         {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update, evicted)}, delete: []string{"b"}, failed: "b"},
		"an outdated update that failed":                {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "older", update, evicted)}, create: updates, delete: []string{"b"}},
		"an update that is being deleted":               {pods: []*corev1.Pod{pod("a", "old", ready), pod("b", "new", update, terminating)}, create: updates},
		"an update without a serving Pod":               {pods: []*corev1.Pod{pod("b", "new", update)}, promote: "b"},
		"an outdated update without a serving Pod":      {pods: []*corev1.Pod{pod("b", "old", update, ready)}, create: serving, delete: []string{"b"}},
		"an update that crashes, without a serving Pod": {pods: []*corev1.Pod{pod("b", "new", update, crashing)}, create: serving, delete: []string{"b"}, failed: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			want := pod("", "new")
			got := Decide(want, tt.pods, tt.hold)
			create := nothing
			if got.Create != nil {
				create = serving
				if IsUpdate(got.Create) {
					create = updates
				}
				require.Equal(t, "new", got.Create.Labels[names.LabelPodSpecHash])
			}
			require.Equal(t, tt.create, create)
			require.Equal(t, tt.promote, nameOf(got.Promote))
			require.Equal(t, tt.failed, nameOf(got.Failed))
			var deleted []string
			for _, p := range got.Delete {
				deleted = append(deleted, p.Name)
			}
			require.ElementsMatch(t, tt.delete, deleted)
			require.Equal(t, tt.create == nothing && tt.promote == "" && tt.delete == nil, got.IsEmpty())
		})
	}
}

func nameOf(p *corev1.Pod) string {
	if p == nil {
		return ""
	}
	return p.Name
}

func TestServing(t *testing.T) {
	for name, tt := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no Pods":            {},
		"the ready Pod":      {[]*corev1.Pod{pod("a", "old"), pod("b", "old", ready)}, "b"},
		"the up-to-date Pod": {[]*corev1.Pod{pod("a", "old", ready), pod("b", "new", ready)}, "b"},
		"an outdated Pod while the other Pod starts": {[]*corev1.Pod{pod("a", "old", ready), pod("b", "new")}, "a"},
		"no update Pod":                        {[]*corev1.Pod{pod("a", "new", ready, update)}, ""},
		"no Pod that is dead or being deleted": {[]*corev1.Pod{pod("a", "new", ready, terminating), pod("b", "new", evicted)}, ""},
		"a Pod that is starting":               {[]*corev1.Pod{pod("a", "new")}, "a"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, nameOf(Serving("cat", "new", tt.pods))) })
	}
}

func TestTrouble(t *testing.T) {
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	}
	crashed := func(p *corev1.Pod) {
		crashing(p)
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no database\n"}
	}
	for want, p := range map[string]*corev1.Pod{
		"": pod("a", "new"),
		"ImagePullBackOff: Back-off pulling image":                   pod("a", "new", waits("ImagePullBackOff", "Back-off pulling image")),
		"CrashLoopBackOff: exit code 2: no database":                 pod("a", "new", crashed),
		"CrashLoopBackOff: back-off 10s restarting failed container": pod("a", "new", crashing),
		"Unschedulable: 0/3 nodes are available":                     pod("a", "new", unscheduled),
		"Failed: Evicted: The node was low on memory.":               pod("a", "new", evicted),
	} {
		require.Equal(t, want, Trouble(p))
	}
	require.Empty(t, Trouble(pod("a", "new", waits("ContainerCreating", ""))))
	require.Nil(t, Waiting("new", []*corev1.Pod{pod("a", "new", update), pod("b", "new", update, ready)}))
	waiting := Waiting("new", []*corev1.Pod{pod("a", "new", crashing), pod("c", "new", update, unscheduled)})
	require.Equal(t, "catalog polling: cat not ready for update: update pod c has not yet reported ready: Unschedulable: 0/3 nodes are available", NotReadyMessage("cat", waiting))
	require.Equal(t, "cat", waiting.Labels["catalogsource.operators.coreos.com/update"])
}
