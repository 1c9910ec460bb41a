package forge

import (
	"strings"
)

// Catalog is a file-based catalog with the bundles' manifests inline, one version of each package.
func Catalog(bundles ...*Bundle) string {
	var out strings.Builder
	for _, b := range bundles {
		properties := []any{property("olm.package", map[string]any{"packageName": b.Package, "version": "1.0.0"})}
		for _, m := range b.Manifests {
			properties = append(properties, property("olm.bundle.object", map[string]any{"data": []byte(m)}))
		}
		for _, object := range []map[string]any{
			{"schema": "olm.package", "name": b.Package, "defaultChannel": Channel},
			{"schema": "olm.channel", "package": b.Package, "name": Channel, "entries": []any{map[string]any{"name": b.Name}}},
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
