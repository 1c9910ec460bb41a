package forge

import (
	"cmp"
	"maps"
	"strings"
)

// Catalog returns a file-based catalog of the bundles with their manifests inline. Each package has one version.
func Catalog(bundles ...*Bundle) string {
	var out strings.Builder
	for _, b := range bundles {
		properties := []any{}
		if b.Version != Unversioned {
			properties = append(properties, property("olm.package", map[string]any{"packageName": b.Package, "version": cmp.Or(b.Version, "1.0.0")}))
		}
		for _, m := range b.Manifests {
			properties = append(properties, property("olm.bundle.object", map[string]any{"data": []byte(m)}))
		}
		entry := map[string]any{"name": b.Name}
		maps.Copy(entry, b.Edges)
		for _, object := range []map[string]any{
			{"schema": "olm.package", "name": b.Package, "defaultChannel": Channel},
			{"schema": "olm.channel", "package": b.Package, "name": Channel, "entries": []any{entry}},
			{"schema": "olm.bundle", "package": b.Package, "name": b.Name, "properties": properties},
		} {
			out.WriteString(text(object))
			out.WriteString("\n")
		}
	}
	return out.String()
}

func property(kind string, value any) map[string]any {
	return map[string]any{"type": kind, "value": value}
}
