package subscription

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// answers remember what was decided for a namespace, for as long as all that it was decided by is the same: then
// nothing is solved, and no content is read.
type answers struct {
	mu sync.Mutex
	of map[string]*known
}

// known is an answer with the plans that were made of its sets, by nameOf.
type known struct {
	key    [sha256.Size]byte
	Answer *resolver.Answer
	plans  map[string]resolver.Plan
}

// get returns what is known under the key: nothing, where the answer was another one's.
func (a *answers) get(namespace string, key [sha256.Size]byte) *known {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.of[namespace]; k != nil && k.key == key {
		return k
	}
	return &known{key: key, plans: map[string]resolver.Plan{}}
}

func (a *answers) put(namespace string, k *known) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]*known{}
	}
	a.of[namespace] = k
}

// key is a hash over all that a resolution looks at.
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
		if s, ok := in.Catalogs.Get(key); ok {
			digest, priority = s.Digest, s.Priority
		}
		word(key, digest, priority)
	}
	for _, s := range ns.Subjects {
		spec, _ := json.Marshal(s.Subscription.Spec) // encodes: it was decoded
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
	for _, gvk := range slices.SortedFunc(maps.Keys(w.served), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	}) {
		word(gvk)
	}
	h.Sum(out[:0])
	return out
}

// nameOf tells the sets of one answer apart.
func nameOf(set []resolver.Choice) string {
	var words []string
	for _, c := range set {
		words = append(words, c.Subscription.Name+"/"+c.Bundle)
	}
	return strings.Join(words, " ")
}
