package configmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

// Keys of the legacy format. The value of each is a YAML list.
const (
	KeyCRDs     = "customResourceDefinitions"
	KeyCSVs     = "clusterServiceVersions"
	KeyPackages = "packages"
)

// Load reads the catalog in a ConfigMap, within the limits of a Loader. The caller sets Key and Priority of the
// Snapshot before publishing it.
func Load(ctx context.Context, cm *corev1.ConfigMap, loader fbc.Loader) (*catalog.Snapshot, error) {
	keys := keysOf(cm)
	files := map[string][]byte{}
	var legacy []string
	for key, data := range keys {
		switch {
		case isLegacy(key):
			legacy = append(legacy, key)
		case fbc.IsCatalogFile(key):
			files[key] = data
		}
	}
	slices.Sort(legacy)
	switch {
	case len(files) > 0 && len(legacy) > 0:
		return nil, fmt.Errorf("the ConfigMap contains both file-based catalog files and the legacy keys %s: use only one format", strings.Join(legacy, ", "))
	case len(files) > 0:
		return loader.FromFiles(ctx, files)
	case len(legacy) > 0:
		return decodeLegacy(ctx, keys, loader)
	}
	return nil, errors.New("the ConfigMap contains no catalog: it has neither a key that ends in .yaml, .yml or .json nor the legacy keys " +
		strings.Join([]string{KeyCSVs, KeyCRDs, KeyPackages}, ", "))
}

func decodeLegacy(ctx context.Context, keys map[string][]byte, loader fbc.Loader) (*catalog.Snapshot, error) {
	cost := int64(0)
	for _, key := range []string{KeyCRDs, KeyCSVs, KeyPackages} {
		if err := catalog.CheckCost(keys[key], loader.Limits.Cost-cost); err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		cost += catalog.YAMLCost(keys[key])
	}
	end, err := loader.Decoding.Begin(ctx, cost)
	if err != nil {
		return nil, err
	}
	defer end()
	return loadLegacy(keys)
}

func isLegacy(key string) bool {
	return key == KeyCRDs || key == KeyCSVs || key == KeyPackages
}

// keysOf merges data and binaryData; the API server ensures that their keys are distinct.
func keysOf(cm *corev1.ConfigMap) map[string][]byte {
	out := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	maps.Copy(out, cm.BinaryData)
	for key, text := range cm.Data {
		out[key] = []byte(text)
	}
	return out
}
