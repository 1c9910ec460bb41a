package catalogsource

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/configmap"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/display"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// configMaps caches the content of each CatalogSource's ConfigMap, and the version of the ConfigMap that it was loaded
// from.
type configMaps struct {
	budget *budget
	// disk stores the parts of the content that are only displayed, such as icons.
	disk  *disk.Store
	loads keyed.Map[types.NamespacedName, configMapLoad]
}

type configMapLoad struct {
	name            string
	uid             types.UID
	resourceVersion string
	content
}

// load returns the content of a ConfigMap. It parses the ConfigMap only if this version was not loaded before.
func (c *configMaps) load(ctx context.Context, key types.NamespacedName, cm *corev1.ConfigMap) content {
	old := c.loads.Get(key)
	if old.uid == cm.UID && old.resourceVersion == cm.ResourceVersion && old.name == cm.Name {
		return old.content
	}
	now := configMapLoad{name: cm.Name, uid: cm.UID, resourceVersion: cm.ResourceVersion}
	if old.name == cm.Name {
		now.good = old.good
	} else {
		c.budget.release(holder{by: fromConfigMap, key: key})
	}
	snap, err := c.read(ctx, cm, c.budget.loader(key.Namespace))
	if ctx.Err() != nil {
		return content{good: now.good, err: ctx.Err()}
	}
	if err == nil && snap.IsMissingPackagesOf(now.good) {
		err = now.updatedWith(snap).err
	}
	if err == nil {
		if err = c.budget.take(holder{by: fromConfigMap, key: key}, snap.Size()+max(sizeOf(cm), sizeOfManifests(ctx, snap))); err != nil {
			now.uid = "" // load the ConfigMap again in the next reconcile, because it may fit then
		} else {
			c.budget.satisfy(key)
		}
	}
	if now.err = err; err == nil {
		now.good = snap
	}
	c.loads.Set(key, now)
	return now.content
}

// read parses a ConfigMap.
func (c *configMaps) read(ctx context.Context, cm *corev1.ConfigMap, loader fbc.Loader) (*catalog.Snapshot, error) {
	shown, err := display.Record(c.disk, &loader, nil)
	if err != nil {
		return nil, err
	}
	defer shown.Discard()
	snap, err := configmap.Load(ctx, cm, loader)
	if err == nil {
		err = shown.Finish("", snap)
	}
	return snap, err
}

// sizeOfManifests returns the size of the manifests that a Snapshot retains: those of each bundle, although the ConfigMap may contain
// them once for several packages.
func sizeOfManifests(ctx context.Context, snap *catalog.Snapshot) (size int64) {
	for _, pkg := range snap.Packages {
		for name := range pkg.Bundles {
			found, err := snap.Reader.Content(ctx, pkg.Name, "", name)
			if err != nil {
				continue // the catalog contains only the reference of an image
			}
			for _, m := range found.Manifests {
				size += int64(len(m))
			}
		}
	}
	return size
}

// sizeOf returns the size of the text of a ConfigMap.
func sizeOf(cm *corev1.ConfigMap) int64 {
	size := 0
	for _, text := range cm.Data {
		size += len(text)
	}
	for _, data := range cm.BinaryData {
		size += len(data)
	}
	return int64(size)
}

// good returns the last good content of the ConfigMap with this name, if any.
func (c *configMaps) good(key types.NamespacedName, name string) *catalog.Snapshot {
	if load := c.loads.Get(key); load.name == name {
		return load.good
	}
	return nil
}

func (c *configMaps) drop(key types.NamespacedName) {
	if c.loads.Delete(key).name != "" {
		c.budget.release(holder{by: fromConfigMap, key: key})
	}
}
