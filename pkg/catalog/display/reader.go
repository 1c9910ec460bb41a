package display

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

const (
	kindCSV = "ClusterServiceVersion"
	// maxYAML bounds the size of a manifest that is converted from YAML.
	maxYAML = 256 << 10
)

// reader implements catalog.DisplayReader.
type reader struct {
	// lines may be nil.
	lines *disk.Lines
	// contents contains the manifests of bundles that are in the catalog itself.
	contents catalog.ContentReader
}

// New returns a reader of the descriptions in lines and in the manifests that the catalog contains. Lines can be nil.
// contents must not read bundle images.
func New(lines *disk.Lines, contents catalog.ContentReader) catalog.DisplayReader {
	return &reader{lines, contents}
}

// Size returns the size of the lines on disk.
func (r *reader) Size() int64 {
	if r.lines == nil {
		return 0
	}
	return r.lines.Size()
}

// PackageDisplay implements catalog.DisplayReader.
func (r *reader) PackageDisplay(_ context.Context, pkg string) ([]byte, error) {
	return r.line(declcfg.SchemaPackage, "", pkg)
}

// BundleDisplay implements catalog.DisplayReader.
func (r *reader) BundleDisplay(ctx context.Context, pkg, channel, bundle string) ([]byte, error) {
	text, err := r.line(declcfg.SchemaBundle, pkg, bundle)
	if err != nil {
		return nil, err
	}
	if text != nil {
		var line struct {
			Display json.RawMessage `json:"display"`
		}
		err := json.Unmarshal(text, &line)
		return line.Display, err
	}
	content, err := r.contents.Content(ctx, pkg, channel, bundle)
	if errors.Is(err, catalog.ErrNoContent) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, m := range content.Manifests {
		if object := csv(m); object != nil {
			return object, nil
		}
	}
	return nil, nil
}

// line reads a line, or returns nil if there is none.
func (r *reader) line(schema, pkg, name string) ([]byte, error) {
	if r.lines == nil {
		return nil, nil
	}
	line, ok := r.lines.Find(schema, pkg, name)
	if !ok || line.Length() > catalog.MaxDisplayBytes+1 {
		return nil, nil
	}
	return io.ReadAll(r.lines.Open(line))
}

// csv returns a manifest as JSON if it is a ClusterServiceVersion that is not too large.
func csv(m []byte) []byte {
	if len(m) > catalog.MaxDisplayBytes {
		return nil
	}
	var head struct{ Kind string }
	if err := json.Unmarshal(m, &head); err != nil {
		if len(m) > maxYAML || manifest.CheckAliases(m) != nil {
			return nil
		}
		if m, err = yaml.YAMLToJSON(m); err != nil || json.Unmarshal(m, &head) != nil {
			return nil
		}
	}
	if head.Kind != kindCSV {
		return nil
	}
	return m
}
