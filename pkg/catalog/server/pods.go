package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Step is what the Pods of a registry call for. The Pods that it names are among those that it was decided on.
type Step struct {
	// Promote is the update Pod that is to serve from now on.
	Promote *corev1.Pod
	// Create is the Pod that is to be made, one that serves or an update Pod.
	Create *corev1.Pod
	// Delete are those that are dead or that nobody needs any more.
	Delete []*corev1.Pod
	// Failed is the update Pod, as wanted, that is given up: it is one of those to delete.
	Failed *corev1.Pod
}

// Nothing is to be done.
func (s Step) Nothing() bool { return s.Promote == nil && s.Create == nil && len(s.Delete) == 0 }

// Hold says which Pods are not to be made now, after earlier ones failed.
type Hold struct{ Serving, Update bool }

// Decide holds the Pods of a registry against the one that is wanted.
//
//	the Pod that serves    update Pod as wanted
//	none                   none            make one that serves
//	none                   there           it serves: nobody else does
//	of another hash        none            make one
//	of another hash        not ready yet   wait
//	of another hash        ready           it serves, the other goes
//	of another hash        failed          it goes, the other serves on
//	as wanted              any             that goes
//
// What a Pod was made from is known by its hash alone: admission webhooks change Pods, and to undo that would make Pods without
// end. Pods that are being deleted do not count, however long their node takes.
func Decide(want *corev1.Pod, pods []*corev1.Pod, hold Hold) Step {
	step, serving, updates := sortOut(want, pods)
	now, next := best(serving, hashOf(want)), best(updates, hashOf(want))
	switch {
	case now != nil && hashOf(now) == hashOf(want):
		next = nil
	case next != nil && (now == nil || IsReady(next)):
		step.Promote, now = next, nil
	case next == nil && now == nil && !hold.Serving:
		step.Create = want
	case next == nil && now != nil && !hold.Update && step.Failed == nil:
		step.Create = Updating(want)
	}
	step.Delete = slices.Concat(step.Delete, without(now, serving), without(next, updates))
	return step
}

// sortOut has what is dead or outdated before it served deleted, and returns what is left: the Pods that serve, and those that may.
func sortOut(want *corev1.Pod, pods []*corev1.Pod) (step Step, serving, updates []*corev1.Pod) {
	name := want.Labels[names.LabelCatalogSource]
	for _, p := range pods {
		isUpdate, asWanted := p.Labels[names.LabelCatalogSourceUpdate] == name, hashOf(p) == hashOf(want)
		switch {
		case p.DeletionTimestamp != nil:
		case isDead(p), isUpdate && (isCrashing(p) || !asWanted):
			step.Delete = append(step.Delete, p)
			if isUpdate && asWanted {
				step.Failed = p
			}
		case isUpdate:
			updates = append(updates, p)
		case p.Labels[names.LabelCatalogSource] == name:
			serving = append(serving, p)
		}
	}
	return step, serving, updates
}

func without(one *corev1.Pod, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p == one })
}

func hashOf(p *corev1.Pod) string { return p.Labels[names.LabelPodSpecHash] }

// best is the Pod of the hash before others, the ready one, the oldest.
func best(pods []*corev1.Pod, hash string) *corev1.Pod {
	if len(pods) == 0 {
		return nil
	}
	rank := func(p *corev1.Pod) int {
		out := 0
		if hashOf(p) != hash {
			out = 2
		}
		if !IsReady(p) {
			out++
		}
		return out
	}
	return slices.MinFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Serving is the Pod of a CatalogSource to read the registry from, or to wait for: of the hash if there is one, ready or not. It is
// nil where there is none.
func Serving(name, hash string, pods []*corev1.Pod) *corev1.Pod {
	var ready, others []*corev1.Pod
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil || p.Labels[names.LabelCatalogSource] != name || isDead(p):
		case IsReady(p):
			ready = append(ready, p)
		default:
			others = append(others, p)
		}
	}
	if len(ready) > 0 {
		return best(ready, hash)
	}
	return best(others, hash)
}

// Waiting is the update Pod of the hash that has trouble on its way; nil where there is none.
func Waiting(hash string, pods []*corev1.Pod) *corev1.Pod {
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool {
		lives := p.DeletionTimestamp == nil && !isDead(p) && !isCrashing(p)
		return IsUpdate(p) && hashOf(p) == hash && lives && !IsReady(p) && Trouble(p) != ""
	})
	if i < 0 {
		return nil
	}
	return pods[i]
}

// IsReady says whether a Pod answers.
func IsReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.PodIP != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// IsUpdate says whether a Pod is to take the place of another.
func IsUpdate(p *corev1.Pod) bool { return p.Labels[names.LabelCatalogSourceUpdate] != "" }

// isDead says whether a Pod will never run again: it was evicted, or its node lost it.
func isDead(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

const reasonCrashLoop = "CrashLoopBackOff"

func isCrashing(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.State.Waiting.Reason == reasonCrashLoop
	})
}

// progress are the reasons for which containers wait on the way.
var progress = []string{"", "ContainerCreating", "PodInitializing"}

// Trouble says why a Pod is not on its way to be ready; it is empty where nothing is known against it.
func Trouble(p *corev1.Pod) string {
	if isDead(p) {
		return sentence(string(p.Status.Phase), p.Status.Reason, p.Status.Message)
	}
	for _, c := range p.Status.ContainerStatuses {
		waiting := c.State.Waiting
		if waiting == nil || slices.Contains(progress, waiting.Reason) {
			continue
		}
		why := waiting.Message
		if last := c.LastTerminationState.Terminated; last != nil {
			why = sentence(fmt.Sprintf("exit code %d", last.ExitCode), last.Message)
		}
		return sentence(waiting.Reason, why)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return sentence(c.Reason, c.Message)
		}
	}
	return ""
}

func sentence(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ": ")
}
