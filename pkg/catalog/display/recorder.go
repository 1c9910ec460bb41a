package display

import (
	"encoding/json"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

// Recorder collects display-only data while a catalog is loaded.
type Recorder struct {
	disk  *disk.Store
	lines *disk.LinesWriter
}

// Record makes a loader pass its objects to a new Recorder, which the caller must discard. take reserves bytes before they
// are written; nil means that no reservation is needed.
func Record(store *disk.Store, loader *fbc.Loader, take func(bytes int64) error) (*Recorder, error) {
	lines, err := store.NewLines(take)
	if err != nil {
		return nil, err
	}
	r := &Recorder{disk: store, lines: lines}
	loader.Objects = r.put
	return r, nil
}

// Discard deletes the temporary file.
func (r *Recorder) Discard() { r.lines.Discard() }

// Finish sets the Displays of the catalog that was loaded. If key is not empty, they are stored on disk with the catalog
// that has this key. Otherwise, they are stored only while they are in use.
func (r *Recorder) Finish(key string, snap *catalog.Snapshot) error {
	keep := isShown(snap)
	lines, err := (*disk.Lines)(nil), error(nil)
	if key == "" {
		lines, err = r.disk.KeepLines(r.lines, keep)
	} else {
		lines, err = r.disk.PutDisplays(key, r.lines, keep)
	}
	if err == nil {
		snap.Displays = New(lines, snap.Reader)
	}
	return err
}

// isShown returns a function that selects the packages of a catalog, and the newest bundles of their channels.
func isShown(snap *catalog.Snapshot) func(disk.Line) bool {
	type bundle struct{ pkg, name string }
	heads := map[bundle]bool{}
	for _, pkg := range snap.Packages {
		for _, c := range pkg.Channels {
			if head, err := c.Head(); err == nil {
				heads[bundle{pkg.Name, head.Name}] = true
			}
		}
	}
	return func(l disk.Line) bool {
		if l.Schema == declcfg.SchemaPackage {
			return snap.Packages[l.Name] != nil
		}
		return heads[bundle{l.Package, l.Name}]
	}
}

// packageLine is the stored part of an olm.package.
type packageLine struct {
	Schema string          `json:"schema"`
	Name   string          `json:"name"`
	Icon   json.RawMessage `json:"icon,omitempty"`
}

// bundleLine is the stored part of an olm.bundle.
type bundleLine struct {
	Schema  string                     `json:"schema"`
	Package string                     `json:"package"`
	Name    string                     `json:"name"`
	Display map[string]json.RawMessage `json:"display"`
}

// put implements fbc.Loader.Objects. Objects that are malformed or too large are not shown.
func (r *Recorder) put(schema, pkg, name string, document []byte) error {
	var line any
	switch schema {
	case declcfg.SchemaPackage:
		p := packageLine{Schema: schema, Name: name}
		if json.Unmarshal(document, &p) != nil || p.Icon == nil {
			return nil
		}
		line = p
	case declcfg.SchemaBundle:
		display := displayOf(document)
		if display == nil {
			return nil
		}
		line = bundleLine{Schema: schema, Package: pkg, Name: name, Display: display}
	default:
		return nil
	}
	text, err := json.Marshal(line)
	if err != nil || len(text) > catalog.MaxDisplayBytes {
		return nil
	}
	return r.lines.Put(schema, pkg, name, text)
}

// displayOf returns the value of olm.csv.metadata and the related images of an olm.bundle.
func displayOf(document []byte) map[string]json.RawMessage {
	var bundle struct {
		Properties []struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"properties"`
		RelatedImages json.RawMessage `json:"relatedImages"`
	}
	if json.Unmarshal(document, &bundle) != nil {
		return nil
	}
	for _, p := range bundle.Properties {
		if p.Type != property.TypeCSVMetadata {
			continue
		}
		var out map[string]json.RawMessage
		if json.Unmarshal(p.Value, &out) != nil || out == nil {
			return nil
		}
		if bundle.RelatedImages != nil {
			out["relatedImages"] = bundle.RelatedImages
		}
		return out
	}
	return nil
}
