package configmap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

// pkgManifest is an element of the legacy key "packages".
type pkgManifest struct {
	Name     string       `json:"packageName"`
	Default  string       `json:"defaultChannel"`
	Channels []pkgChannel `json:"channels"`
}

type pkgChannel struct {
	Name       string `json:"name"`
	CurrentCSV string `json:"currentCSV"`
}

// legacy contains the objects of a ConfigMap, by name, and the file-based catalog built from them.
type legacy struct {
	csvs map[string][]byte
	crds map[string][]byte
	cfg  declcfg.DeclarativeConfig
	// budget is for cfg, which contains a manifest once for each package and version to which it belongs.
	budget *budget.Budget
}

// maxBytes is the memory of the packages of one ConfigMap. Until they are loaded, their manifests take about three times as much.
const maxBytes = 32 << 20

// draw adds parts of a package that are about to be built.
func (l *legacy) draw(s budget.Size) error {
	if err := l.budget.Draw(s); err != nil {
		return fmt.Errorf("%w: each package contains its versions, and each version its CustomResourceDefinitions; use fewer of them, or a file-based catalog", err)
	}
	return nil
}

// loadLegacy loads the legacy format by converting it to a file-based catalog, so that both formats are validated in
// the same way.
func loadLegacy(keys map[string][]byte) (*catalog.Snapshot, error) {
	l := legacy{budget: budget.New("the packages of the ConfigMap", maxBytes)}
	var err error
	if l.csvs, err = byName(keys, KeyCSVs); err != nil {
		return nil, err
	}
	if l.crds, err = byName(keys, KeyCRDs); err != nil {
		return nil, err
	}
	packages, broken, err := readPackages(keys)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		kept := l.cfg
		if err := l.addPackage(p); errors.As(err, new(*budget.Error)) {
			return nil, err
		} else if err != nil {
			l.cfg = kept
			broken[p.Name] = err
		}
	}
	for name, err := range broken {
		broken[name] = fmt.Errorf("key %q, package %q: %w", KeyPackages, name, err)
	}
	return fbc.FromConfig(&l.cfg, broken)
}

// readPackages reads the packages in their order. It merges elements that describe the same package. broken contains the
// problems of packages, by name; these packages are omitted.
func readPackages(keys map[string][]byte) (packages []*pkgManifest, broken map[string]error, err error) {
	elements, err := manifest.List(keys[KeyPackages])
	if err != nil {
		return nil, nil, fmt.Errorf("key %q: %w", KeyPackages, err)
	}
	broken = map[string]error{}
	byName := map[string]*pkgManifest{}
	for i, data := range elements {
		p := &pkgManifest{}
		if err := json.Unmarshal(data, p); err != nil {
			if p.Name == "" {
				return nil, nil, fmt.Errorf("key %q, element %d: %w", KeyPackages, i+1, err)
			}
			broken[p.Name] = err
			continue
		}
		if p.Default == "" && len(p.Channels) == 1 {
			p.Default = p.Channels[0].Name
		}
		if first := byName[p.Name]; first != nil {
			first.Channels, first.Default = append(first.Channels, p.Channels...), cmp.Or(p.Default, first.Default)
			continue
		}
		byName[p.Name] = p
		packages = append(packages, p)
	}
	return slices.DeleteFunc(packages, func(p *pkgManifest) bool { return broken[p.Name] != nil }), broken, nil
}

func byName(keys map[string][]byte, key string) (map[string][]byte, error) {
	objects, err := manifest.List(keys[key])
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	out := make(map[string][]byte, len(objects))
	for i, data := range objects {
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("key %q, element %d: %w", key, i+1, err)
		}
		name := object.Metadata.Name
		if err := catalog.CheckName(name); err != nil {
			return nil, fmt.Errorf("key %q, element %d: %w", key, i+1, err)
		}
		// A CRD that two CSVs own may be listed once for each of them.
		if _, ok := out[name]; ok && key == KeyCSVs {
			return nil, fmt.Errorf("key %q: duplicate ClusterServiceVersion %q", key, name)
		}
		out[name] = data
	}
	return out, nil
}

func (l *legacy) addPackage(p *pkgManifest) error {
	if len(p.Channels) == 0 {
		return errors.New("package has no channels")
	}
	if !slices.ContainsFunc(p.Channels, func(c pkgChannel) bool { return c.Name == p.Default }) {
		return fmt.Errorf("default channel %q does not exist", p.Default)
	}
	l.cfg.Packages = append(l.cfg.Packages, declcfg.Package{
		Schema:         declcfg.SchemaPackage,
		Name:           p.Name,
		DefaultChannel: p.Default,
	})
	described := map[string]*manifest.Description{}
	heads := map[string]string{}
	for _, c := range p.Channels {
		if head, ok := heads[c.Name]; ok {
			if head != c.CurrentCSV {
				return fmt.Errorf("channel %q has two different heads, %q and %q", c.Name, head, c.CurrentCSV)
			}
			continue
		}
		heads[c.Name] = c.CurrentCSV
		entries, err := l.chain(p.Name, c.CurrentCSV, described)
		if err != nil {
			return fmt.Errorf("channel %q: %w", c.Name, err)
		}
		l.cfg.Channels = append(l.cfg.Channels, declcfg.Channel{
			Schema:  declcfg.SchemaChannel,
			Name:    c.Name,
			Package: p.Name,
			Entries: entries,
		})
	}
	return nil
}

// chain follows spec.replaces from a channel's head. It ends at a replaced version that is not in the ConfigMap.
func (l *legacy) chain(pkg, head string, described map[string]*manifest.Description) ([]declcfg.ChannelEntry, error) {
	if _, ok := l.csvs[head]; !ok {
		return nil, fmt.Errorf("ClusterServiceVersion %q not found", head)
	}
	var entries []declcfg.ChannelEntry
	inChain := map[string]bool{}
	for name := head; l.csvs[name] != nil && !inChain[name]; {
		inChain[name] = true
		d, ok := described[name]
		if !ok {
			var err error
			if d, err = l.addBundle(pkg, name); err != nil {
				return nil, err
			}
			described[name] = d
		}
		if err := l.draw(budget.Of(declcfg.ChannelEntry{})); err != nil {
			return nil, err
		}
		entries = append(entries, d.Entry())
		name = d.Replaces
	}
	return entries, nil
}

// addBundle builds a bundle from a CSV and the CRDs that it owns.
func (l *legacy) addBundle(pkg, name string) (*manifest.Description, error) {
	manifests := [][]byte{l.csvs[name]}
	if err := l.draw(budget.OfText(len(l.csvs[name]))); err != nil {
		return nil, err
	}
	alone, err := manifest.Describe(pkg, &catalog.Content{Manifests: manifests})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	added := map[string]bool{}
	for _, crd := range alone.OwnedCRDs {
		data, ok := l.crds[crd]
		if !ok || added[crd] {
			continue
		}
		added[crd] = true
		if err := l.draw(budget.OfText(len(data))); err != nil {
			return nil, err
		}
		manifests = append(manifests, data)
	}
	d, err := manifest.Describe(pkg, &catalog.Content{Manifests: manifests})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	if err := l.draw(budget.Of(d.Properties)); err != nil {
		return nil, err
	}
	l.cfg.Bundles = append(l.cfg.Bundles, d.Bundle(pkg, manifests))
	return d, nil
}
