package subscription

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step/build"
)

// answers caches the result of resolving each namespace. While the inputs are unchanged, the namespace is not resolved
// again, and no bundle content is read.
type answers struct {
	keyed.Map[string, *known]
}

// known is a cached answer. plans contains the plans for its sets, keyed by the result of nameOf.
type known struct {
	key    [sha256.Size]byte
	used   usedKinds
	answer *resolver.Answer
	plans  map[string]resolution
	// first is the index of the set with which the next reconcile begins.
	first int
	// awaited contains the time since which the namespace has been waiting for each image. waited contains the times
	// from the previous reconcile.
	awaited, waited map[string]time.Time
}

// resolution is the plan for a set, and the permissions of its ClusterServiceVersions that the account was missing.
type resolution struct {
	plan   resolver.Plan
	excess []build.Excess
	// partial means that the excess is too large to be kept.
	partial bool
}

// maxKeptExcess bounds the memory of the permissions that are kept for a set, in bytes. Only the first ones appear in a status, and a
// namespace can have many sets.
const maxKeptExcess = 64 << 10

// keep caches a plan, with its excess if that is small.
func (k *known) keep(name string, resolved resolution) {
	if budget.Of(resolved.excess).Memory > maxKeptExcess {
		resolved.excess, resolved.partial = nil, true
	}
	k.plans[name] = resolved
}

// recompute forgets a plan whose excess was not kept. It is called when the excess has to be reported, so that the next reconcile knows
// it.
func (k *known) recompute(name string) {
	if k.plans[name].partial {
		delete(k.plans, name)
	}
}

// restart begins a reconcile. It keeps the times from the previous reconcile for images that are still awaited.
func (k *known) restart() {
	k.waited, k.awaited = k.awaited, map[string]time.Time{}
}

// awaitedSince returns the time since which the namespace has been waiting for an image, which is now if it was not
// waiting before.
func (k *known) awaitedSince(image string, now time.Time) time.Time {
	since, ok := k.waited[image]
	if !ok {
		since = now
	}
	k.awaited[image] = since
	return since
}

// unpin forgets the plan for a set, unless only reading failed: the content may have changed since it was pinned.
func (k *known) unpin(name string, err error) {
	if !kit.Is[*resolver.ReadError](err) {
		delete(k.plans, name)
	}
}

// find returns the cached answer for a namespace. If the key or a served kind that the answer depends on has changed,
// it returns a new entry without an answer, which still records the awaited images and the set to begin with.
func (a *answers) find(namespace string, key [sha256.Size]byte, now served) *known {
	found := &known{key: key, plans: map[string]resolution{}}
	if k := a.Get(namespace); k != nil && k.key == key && k.used.isCurrent(now) {
		found = k
	} else if k != nil {
		found.awaited, found.first = k.awaited, k.first
	}
	return found
}

// key returns a hash of all inputs of a resolution except the served kinds, which usedKinds contains.
func key(w *world, ns resolver.Namespace) (out [sha256.Size]byte) {
	h := sha256.New()
	word := func(parts ...any) {
		for _, p := range parts {
			text := fmt.Sprint(p)
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
	}
	in := w.input
	word(in.ExcludeGlobal, in.Account, in.Group, len(in.Targets), in.Targets, len(in.Visible))
	for _, key := range in.Visible {
		digest, priority := "", 0
		if s, ok := in.Snapshot(key); ok {
			digest, priority = s.Digest, s.Priority
		}
		word(key, digest, priority)
	}
	for _, s := range ns.Subjects {
		spec, _ := json.Marshal(s.Subscription.Spec) // cannot fail because the spec was decoded from JSON
		word(s.Subscription.Name, s.Subscription.UID, string(spec), s.Keep, s.Optional, s.Planned != nil)
		if s.Planned != nil {
			word(*s.Planned)
		}
		if s.Installed != nil {
			word(s.Installed.Name, s.Installed.UID, s.Installed.Generation, s.Installed.Annotations[names.AnnotationProperties])
		}
	}
	word(len(ns.Others))
	for _, csv := range ns.Others {
		word(csv.Name, csv.UID, csv.Generation, csv.Annotations[names.AnnotationProperties])
	}
	h.Sum(out[:0])
	return out
}

// nameOf returns a string that identifies a set within one answer.
func nameOf(set []resolver.Choice) string {
	var words []string
	for _, c := range set {
		words = append(words, c.Subscription.Name+"/"+c.Bundle)
	}
	return strings.Join(words, " ")
}
