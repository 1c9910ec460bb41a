package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Step is the next step for the Pods of a registry.
type Step struct {
	// Promote is the update Pod that becomes the serving Pod.
	Promote *corev1.Pod
	// Create is the Pod to create: a serving Pod or an update Pod.
	Create *corev1.Pod
	// Delete lists Pods that are dead or no longer needed.
	Delete []*corev1.Pod
	// Failed is the up-to-date update Pod that failed. It is also in Delete.
	Failed *corev1.Pod
}

// IsEmpty reports whether there is nothing to do.
func (s Step) IsEmpty() bool { return s.Promote == nil && s.Create == nil && len(s.Delete) == 0 }

// Hold reports which Pods must not be created yet because earlier ones failed.
type Hold struct{ Serving, Update bool }

// Decide compares the Pods of a registry with the desired Pod and returns the next step.
//
//	serving Pod            up-to-date update Pod    step
//	none                   none                     create a serving Pod
//	none                   exists                   promote it, because nothing else serves
//	outdated               none                     create an update Pod
//	outdated               not ready yet            wait
//	outdated               ready                    promote it, delete the serving Pod
//	outdated               failed                   delete it, keep the serving Pod
//	up to date             any                      delete the update Pod
//
// Pods are compared only by the hash of the desired Pod that they were created from: admission webhooks modify Pods, and
// reverting their changes would create Pods endlessly. Pods that are being deleted are ignored, however long their deletion
// takes.
func Decide(want *corev1.Pod, pods []*corev1.Pod, hold Hold) Step {
	step, serving, updates := classify(want, pods)
	now, next := best(serving, hashOf(want)), best(updates, hashOf(want))
	switch {
	case now != nil && hashOf(now) == hashOf(want):
		next = nil
	case next != nil && (now == nil || IsReady(next)):
		step.Promote, now = next, nil
	case next == nil && now == nil && !hold.Serving:
		step.Create = want
	case next == nil && now != nil && !hold.Update && step.Failed == nil:
		step.Create = AsUpdate(want)
	}
	step.Delete = slices.Concat(step.Delete, without(now, serving), without(next, updates))
	return step
}

// classify returns the serving Pods and the update Pods. Dead Pods, and crashing or outdated update Pods, are marked
// for deletion in step instead. Pods that are being deleted are ignored.
func classify(want *corev1.Pod, pods []*corev1.Pod) (step Step, serving, updates []*corev1.Pod) {
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

// best returns the preferred Pod, or nil if there are no Pods. It prefers Pods with the hash, then ready Pods, then older
// Pods.
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

// Serving returns the Pod of a CatalogSource from which to read the registry, or nil. It prefers ready Pods, and among
// these, Pods with the hash.
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

// Waiting returns an update Pod that has the hash and cannot become ready because of a known problem, or nil.
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

// NotReadyMessage describes why an update Pod that Waiting returned does not replace the serving Pod. It uses the wording
// of OLM v0.
func NotReadyMessage(source string, p *corev1.Pod) string {
	return fmt.Sprintf("catalog polling: %s not ready for update: update pod %s has not yet reported ready: %s", source, p.Name, Trouble(p))
}

// IsReady reports whether a Pod is Ready, has an address and is not being deleted.
func IsReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.PodIP != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// IsUpdate reports whether a Pod is an update Pod.
func IsUpdate(p *corev1.Pod) bool { return p.Labels[names.LabelCatalogSourceUpdate] != "" }

// isDead reports whether a Pod has terminated and will never run again, for example because it was evicted.
func isDead(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

const reasonCrashLoop = "CrashLoopBackOff"

func isCrashing(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting != nil && c.State.Waiting.Reason == reasonCrashLoop
	})
}

// progress lists the waiting reasons of containers that are starting normally.
var progress = []string{"", "ContainerCreating", "PodInitializing"}

// Trouble describes why a Pod cannot become ready, or returns "" if no problem is known.
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
