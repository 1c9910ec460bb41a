package scopedcache

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func (c *Cache) keyOf(obj client.Object) (kindKey, error) {
	if value := reflect.ValueOf(obj); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return kindKey{}, errors.New("the kind is unknown: the object is nil")
	}
	as, goType := representationOf(obj), reflect.TypeOf(obj)
	if as == typed {
		if known, ok := c.keys.Load(goType); ok {
			return known.(kindKey), nil
		}
	}
	gvk, err := apiutil.GVKForObject(obj, c.options.Scheme)
	if err != nil {
		return kindKey{}, err
	}
	key := kindKey{gvk: gvk, as: as}
	if as == typed {
		c.keys.Store(goType, key)
	}
	return key, nil
}

// kind returns the state of a kind, and creates it if necessary.
func (c *Cache) kind(key kindKey) *kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kindLocked(key)
}

func (c *Cache) kindLocked(key kindKey) *kind {
	k := c.kinds[key]
	if k == nil {
		k = newKind(c, key, c.kindOptions(key), c.primary[key])
		k.running = c.launch.Load() != nil
		c.kinds[key] = k
		c.publish()
	}
	return k
}

// pin returns the state of a kind and keeps it for the lifetime of the cache, because handlers or indexes belong to it.
func (c *Cache) pin(obj client.Object) (*kind, error) {
	key, err := c.keyOf(obj)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kindLocked(key)
	k.pinned = true
	return k, nil
}

// free removes a kind that is no longer used.
func (c *Cache) free(ctx context.Context, k *kind) {
	if !c.takeUnused(k) {
		return
	}
	if example, err := k.key.example(c.options.Scheme); err == nil {
		_ = c.Cache.RemoveInformer(ctx, example) // fails only if the kind is not in the scheme
	}
}

func (c *Cache) takeUnused(k *kind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[k.key] != k || k.pinned || k.claimed > 0 || k.cluster.wanted() || k.cluster.feed != nil || len(k.namespaces) > 0 {
		return false
	}
	delete(c.kinds, k.key)
	c.publish()
	return true
}

// publish makes a change to c.kinds visible to reads. The caller holds the mutex.
func (c *Cache) publish() {
	kinds := maps.Clone(c.kinds)
	c.current.Store(&kinds)
}

// kindOptions returns the options of a kind, with defaults.
func (c *Cache) kindOptions(key kindKey) KindOptions {
	out := c.ownOptions(key)
	if out.Transform == nil {
		out.Transform = c.options.Transform
	}
	return out
}

// ownOptions returns the options of a kind in Options.ByKind. Options for the same representation take precedence.
func (c *Cache) ownOptions(key kindKey) KindOptions {
	var out KindOptions
	best := metadataOnly + 1
	for obj, options := range c.options.ByKind {
		found, err := c.keyOf(obj)
		switch {
		case err != nil || found.gvk != key.gvk:
		case found == key:
			return options
		case found.as < best:
			best, out = found.as, options
		}
	}
	return out
}

// known returns the state of a kind, or nil if the kind was never used.
func (c *Cache) known(key kindKey) *kind {
	if kinds := c.current.Load(); kinds != nil {
		return (*kinds)[key]
	}
	return nil
}

func (c *Cache) allKinds() []*kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.kinds))
}
