package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

const (
	// maxWatches is the maximum number of watches for one extension.
	maxWatches = 100
	// maxSingle is the number of objects of a kind in a namespace that are watched one by one. If there are more, all objects
	// of the kind in the namespace are watched together, if the identity is allowed to.
	maxSingle = 20
)

// watch watches, as the identity, the objects that were applied and that the identity may watch.
func (s *run) watch(ctx context.Context) error {
	scopes, _ := s.scopes()
	var objs []watched
	for _, st := range s.steps {
		applied := s.pass.marks[apply.Describe(st.Object)] != nil || s.certifies(st.Object) && s.pass.tried
		if scope, ok := scopes[st.Object]; ok && applied {
			objs = append(objs, watched{st.Object, scope})
		}
	}
	for _, obj := range s.probedElsewhere(objs) {
		objs = append(objs, watched{obj, scopedcache.Object(obj.GetNamespace(), obj.GetName())})
	}
	return s.watches.claim(ctx, s.ext, s.identity, objs)
}

// scopes returns the watch scope of each object that the identity may watch. The scopes do not depend on what was
// applied, so that a watch is not replaced during an install. Objects whose status the install waits for come first.
// excess contains the objects beyond maxWatches.
//
// It does not use scopedcache.Options.CoalesceObjects, which would request and retry watches that are not allowed.
func (s *run) scopes() (scopes map[*unstructured.Unstructured]scopedcache.Scope, excess []*unstructured.Unstructured) {
	scopes = map[*unstructured.Unstructured]scopedcache.Scope{}
	watches := map[string]bool{}
	together := s.watchedTogether()
	for _, probed := range []bool{true, false} {
		for _, st := range s.steps {
			obj := st.Object
			if assess.IsProbed(obj) != probed || watchedByController(obj) != nil || !s.mayWatch(obj) {
				continue
			}
			scope := scopedcache.Object(obj.GetNamespace(), obj.GetName())
			if together[groupOf(obj)] {
				scope = scopedcache.Namespace(obj.GetNamespace()) // Cluster for cluster-scoped objects
			}
			key := obj.GroupVersionKind().String() + " " + scope.String()
			if !watches[key] && len(watches) >= maxWatches {
				excess = append(excess, obj)
				continue
			}
			watches[key] = true
			scopes[obj] = scope
		}
	}
	return scopes, excess
}

// group is a kind in a namespace, or a cluster-scoped kind.
type group struct {
	schema.GroupVersionKind
	namespace string
}

func groupOf(obj *unstructured.Unstructured) group {
	return group{obj.GroupVersionKind(), obj.GetNamespace()}
}

// watchedTogether returns the groups with more than maxSingle objects that the identity may watch as a whole.
func (s *run) watchedTogether() map[group]bool {
	counts, out := map[group]int{}, map[group]bool{}
	for _, st := range s.steps {
		g := groupOf(st.Object)
		if counts[g]++; counts[g] == maxSingle+1 && watchedByController(st.Object) == nil {
			need := watchNeed(st.Object)
			need.Rules[0].ResourceNames = nil
			out[g] = s.covers(need.Namespace, need.Rules)
		}
	}
	return out
}

// mayWatch reports whether RBAC allows the identity to watch an object. The lookup is tracked, so that a grant wakes the
// extension.
func (s *run) mayWatch(obj *unstructured.Unstructured) bool {
	need := watchNeed(obj)
	return s.covers(need.Namespace, need.Rules)
}

func watchNeed(obj *unstructured.Unstructured) hooks.Need {
	return hooks.Request(obj, "", "list", "watch")
}

// unnoticed describes the objects whose changes are not detected.
func (s *run) unnoticed() []string {
	var out []string
	if kinds := s.unwatched(); len(kinds) > 0 {
		out = append(out, fmt.Sprintf("changes to objects of these kinds are not detected, because %s is not allowed to list and watch them: %s", s.identity, strings.Join(kinds, ", ")))
	}
	if _, excess := s.scopes(); len(excess) > 0 {
		out = append(out, s.aboutExcess(excess))
	}
	return out
}

// aboutExcess describes objects beyond maxWatches.
func (s *run) aboutExcess(excess []*unstructured.Unstructured) string {
	names := make([]string, 0, len(excess))
	for _, obj := range excess {
		names = append(names, apply.Describe(obj))
	}
	return fmt.Sprintf("changes to %d objects are not detected, because a ClusterExtension has at most %d watches; they can share a watch if %s is allowed to list and watch all objects of these kinds in the namespace: %s",
		len(excess), maxWatches, s.identity, bundle.Named(names))
}

// unwatched returns the kinds of objects that the identity may not watch, sorted.
func (s *run) unwatched() []string {
	var out []string
	for _, st := range s.steps {
		if watchedByController(st.Object) == nil && !s.mayWatch(st.Object) {
			out = append(out, st.Object.GetKind())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
