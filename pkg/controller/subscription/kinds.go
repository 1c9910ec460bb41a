package subscription

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxTold bounds the kinds that are remembered of a resolution. One that asks for more depends on all that are served.
const maxTold = 10_000

// served are the kinds of the cluster's CustomResourceDefinitions that are served, in one version of them. Nobody changes it.
type served struct {
	kinds   map[schema.GroupVersionKind]bool
	version int
}

// kinds finds out what is served, once for each change. The zero value is ready to use.
type kinds struct {
	mu      sync.Mutex
	found   bool
	version int
	kinds   map[schema.GroupVersionKind]bool
}

// changed is for a CustomResourceDefinition that comes, changes or goes.
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
		k.kinds, k.found = now, true
		k.version++
	}
	return served{k.kinds, k.version}, nil
}

func servedKinds(ctx context.Context, c client.Reader) (map[schema.GroupVersionKind]bool, error) {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := c.List(ctx, crds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	out := map[schema.GroupVersionKind]bool{}
	for i := range crds.Items {
		spec := &crds.Items[i].Spec
		for _, v := range spec.Versions {
			if v.Served {
				out[schema.GroupVersionKind{Group: spec.Group, Version: v.Name, Kind: spec.Names.Kind}] = true
			}
		}
	}
	return out, nil
}

// told is what a resolution was told of the kinds that it asked for. While it would be told the same it comes out the same,
// whatever else the cluster serves.
type told struct {
	kinds map[schema.GroupVersionKind]bool
	// more says that there were more kinds than are remembered, in this version of what was served.
	more    bool
	version int
}

// holds says whether the same would be told now.
func (t told) holds(now served) bool {
	if t.more && t.version != now.version {
		return false
	}
	for gvk, is := range t.kinds {
		if now.kinds[gvk] != is {
			return false
		}
	}
	return true
}

// asking answers one resolution.
type asking struct {
	served served
	told   told
}

func newAsking(now served) *asking {
	return &asking{served: now, told: told{kinds: map[schema.GroupVersionKind]bool{}, version: now.version}}
}

// serves is what a resolution asks (resolver.Input).
func (a *asking) serves(gvk schema.GroupVersionKind) bool {
	is := a.served.kinds[gvk]
	switch _, known := a.told.kinds[gvk]; {
	case known:
	case len(a.told.kinds) < maxTold:
		a.told.kinds[gvk] = is
	default:
		a.told.more = true
	}
	return is
}

// all is what was told by now.
func (a *asking) all() told {
	if a == nil {
		return told{}
	}
	return a.told
}
