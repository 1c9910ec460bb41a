package subscription

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// maxUsedKinds is the maximum number of kinds that are recorded for a resolution. If a resolution requests more, its
// result depends on all served kinds.
const maxUsedKinds = 10_000

// served contains the kinds that the cluster's CustomResourceDefinitions serve, and a version number that increases
// with each change. A served value is immutable.
type served struct {
	kinds   map[schema.GroupVersionKind]bool
	version int
}

// kinds caches the served kinds until they change. The zero value is ready to use.
type kinds struct {
	mu    sync.Mutex
	found bool
	now   served
}

// changed records that a CustomResourceDefinition was created, changed or deleted.
func (k *kinds) changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = false
}

func (k *kinds) served(ctx context.Context, c client.Reader) (served, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.found {
		now, err := servedKinds(ctx, c)
		if err != nil {
			return served{}, err
		}
		k.now, k.found = served{now, k.now.version + 1}, true
	}
	return k.now, nil
}

func servedKinds(ctx context.Context, c client.Reader) (map[schema.GroupVersionKind]bool, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, crds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	out := map[schema.GroupVersionKind]bool{}
	for i := range crds.Items {
		for _, gvk := range servedBy(&crds.Items[i]) {
			out[gvk] = true
		}
	}
	return out, nil
}

func servedBy(crd *apiextensionsv1.CustomResourceDefinition) (out []schema.GroupVersionKind) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Served {
			out = append(out, schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind})
		}
	}
	return out
}

// kindsChanged returns a predicate that drops updates of a CustomResourceDefinition after which the same kinds are served. Tenants may
// update their own definitions at any rate, and the namespaces of all tenants that wait for a kind would be reconciled each time.
func kindsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition)
		after, is := e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
		return !ok || !is || !slices.Equal(servedBy(before), servedBy(after))
	}}
}

// usedKinds contains the kinds that a resolution requested, and whether each was served. The result of the resolution
// does not depend on other kinds.
type usedKinds struct {
	kinds map[schema.GroupVersionKind]bool
	// more is true if some requested kinds were not recorded. In this case, the result depends on all kinds that were
	// served at this version.
	more    bool
	version int
}

// isCurrent reports whether the kinds that the resolution used are unchanged.
func (t usedKinds) isCurrent(now served) bool {
	if t.more && t.version != now.version {
		return false
	}
	for gvk, isServed := range t.kinds {
		if now.kinds[gvk] != isServed {
			return false
		}
	}
	return true
}

// kindRecorder tells one resolution which kinds are served, and records which kinds it requested.
type kindRecorder struct {
	served served
	used   usedKinds
}

func newKindRecorder(now served) *kindRecorder {
	return &kindRecorder{served: now, used: usedKinds{kinds: map[schema.GroupVersionKind]bool{}, version: now.version}}
}

// serves implements resolver.Input.Serves.
func (a *kindRecorder) serves(gvk schema.GroupVersionKind) bool {
	isServed := a.served.kinds[gvk]
	switch _, known := a.used.kinds[gvk]; {
	case known:
	case len(a.used.kinds) < maxUsedKinds:
		a.used.kinds[gvk] = isServed
	default:
		a.used.more = true
	}
	return isServed
}
