package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/blang/semver/v4"
	operatorsversion "github.com/operator-framework/api/pkg/lib/version"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Source is the part of a PackageManifest that describes its CatalogSource.
type Source struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	UID         types.UID         `json:"uid"`
	Labels      map[string]string `json:"labels,omitempty"`
	Created     metav1.Time       `json:"created"`
	DisplayName string            `json:"displayName,omitempty"`
	Publisher   string            `json:"publisher,omitempty"`
	// Priority orders packages with the same name, highest first.
	Priority int `json:"priority,omitempty"`
}

// Record is a package of a catalog as it is sent to package-server.
type Record struct {
	// Manifest is the PackageManifest without icons.
	Manifest packagesv1.PackageManifest `json:"manifest"`
	// Icons contains the distinct icons of the channels. Uses maps each channel that has an icon to the icon's index.
	Icons []packagesv1.Icon `json:"icons,omitempty"`
	Uses  map[string]int    `json:"uses,omitempty"`
}

// Describe returns the record of a package. Parts that cannot be read or are too large are omitted; the context limits the time
// for reading. If displays is nil, the record contains only data from the package itself.
func Describe(ctx context.Context, from Source, pkg *catalog.Package, displays catalog.DisplayReader) Record {
	d := &describer{Record: Record{Uses: map[string]int{}}, displays: displays}
	m := &d.Manifest
	m.Name, m.Namespace, m.CreationTimestamp = pkg.Name, from.Namespace, from.Created
	m.Status = packagesv1.PackageManifestStatus{
		CatalogSource: from.Name, CatalogSourceNamespace: from.Namespace,
		CatalogSourceDisplayName: clean(from.DisplayName), CatalogSourcePublisher: clean(from.Publisher),
		PackageName: pkg.Name, DefaultChannel: pkg.DefaultChannel, Deprecation: deprecated(pkg.Deprecation), Channels: []packagesv1.PackageChannel{},
	}
	var supported map[string]string
	icon := d.packageIcon(ctx, pkg.Name)
	for _, name := range pkg.ChannelNames() {
		head, err := pkg.Channels[name].Head()
		if err != nil {
			continue // loaders reject such a channel
		}
		seen := d.bundle(ctx, pkg, name, head.Name)
		m.Status.Channels = append(m.Status.Channels, channel(pkg, pkg.Channels[name], head.Name, seen.CSVDescription))
		d.use(name, append(seen.Icon, icon...))
		if name == pkg.DefaultChannel {
			m.Status.Provider, supported = seen.Provider, seen.labels
		}
	}
	m.Labels = labelsOf(from, m.Status.Provider.Name, m.Status.Provider.URL, supported)
	d.fit()
	return d.Record
}

// describer builds the record of one package.
type describer struct {
	Record
	displays catalog.DisplayReader
}

// packageIcon returns the icon of the package, if any.
func (d *describer) packageIcon(ctx context.Context, pkg string) []packagesv1.Icon {
	if d.displays == nil {
		return nil
	}
	text, err := d.displays.PackageDisplay(ctx, pkg)
	if err != nil || len(text) == 0 {
		return nil
	}
	var object struct{ Icon packagesv1.Icon }
	if json.Unmarshal(text, &object) != nil || object.Icon.Base64Data == "" {
		return nil
	}
	return []packagesv1.Icon{object.Icon}
}

// bundle returns the description of a bundle.
func (d *describer) bundle(ctx context.Context, pkg *catalog.Package, channel, name string) described {
	var out described
	if d.displays != nil && ctx.Err() == nil {
		if text, err := d.displays.BundleDisplay(ctx, pkg.Name, channel, name); err == nil && len(text) > 0 && len(text) <= catalog.MaxDisplayBytes {
			out = parse(text)
		}
	}
	if parsed, err := semver.Parse(pkg.Bundles[name].Version); err == nil {
		out.Version = operatorsversion.OperatorVersion{Version: parsed}
	}
	return out
}

// use records the icon of a channel: the first one that is not too large.
func (d *describer) use(channel string, icons []packagesv1.Icon) {
	for _, icon := range icons {
		if icon.Base64Data == "" || len(icon.Base64Data)+len(icon.Mediatype) > MaxIconBytes {
			continue
		}
		at := slices.Index(d.Icons, icon)
		if at < 0 && len(d.Icons) == maxIcons {
			return
		}
		if at < 0 {
			at = len(d.Icons)
			d.Icons = append(d.Icons, icon)
		}
		d.Uses[channel] = at
		return
	}
}

// maxIcons bounds the number of distinct icons of one package.
const maxIcons = 4

// fit omits data until the manifest is within its size limit: first the descriptions of channels other than the default,
// then all descriptions, then the entries of the channels.
func (d *describer) fit() {
	m := &d.Manifest
	for _, omit := range []func(*packagesv1.PackageChannel){
		func(c *packagesv1.PackageChannel) {
			if c.Name != m.Status.DefaultChannel {
				c.CurrentCSVDesc = brief(c.CurrentCSVDesc)
			}
		},
		func(c *packagesv1.PackageChannel) { c.CurrentCSVDesc = brief(c.CurrentCSVDesc) },
		func(c *packagesv1.PackageChannel) { c.Entries = c.Entries[:min(len(c.Entries), 1)] },
	} {
		if text, err := json.Marshal(m); err == nil && len(text) <= MaxManifestBytes {
			return
		}
		for i := range m.Status.Channels {
			omit(&m.Status.Channels[i])
		}
	}
}

// Brief returns a record without descriptions and icons, for a catalog that exceeds its limit.
func (r Record) Brief() Record {
	out := Record{Manifest: *r.Manifest.DeepCopy()}
	for i := range out.Manifest.Status.Channels {
		c := &out.Manifest.Status.Channels[i]
		c.CurrentCSVDesc, c.Entries = brief(c.CurrentCSVDesc), c.Entries[:min(len(c.Entries), 1)]
	}
	return out
}

func brief(d packagesv1.CSVDescription) packagesv1.CSVDescription {
	return packagesv1.CSVDescription{DisplayName: clean(d.DisplayName), Version: d.Version}
}

func channel(pkg *catalog.Package, c *catalog.Channel, head string, d packagesv1.CSVDescription) packagesv1.PackageChannel {
	d.Icon = nil
	out := packagesv1.PackageChannel{Name: c.Name, CurrentCSV: head, CurrentCSVDesc: d, Deprecation: deprecated(c.Deprecation), Entries: []packagesv1.ChannelEntry{}}
	type versioned struct {
		packagesv1.ChannelEntry
		version semver.Version
	}
	all := make([]versioned, 0, len(c.Entries))
	for name := range c.Entries {
		e := versioned{ChannelEntry: packagesv1.ChannelEntry{Name: name}}
		if b := pkg.Bundles[name]; b != nil {
			e.Version, e.Deprecation = b.Version, deprecated(b.Deprecation)
			e.version, _ = semver.Parse(b.Version) // without a valid version, the entry comes last
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b versioned) int {
		return cmp.Or(order(a.Name == head, b.Name == head), b.version.Compare(a.version), cmp.Compare(a.Name, b.Name))
	})
	for _, e := range all[:min(len(all), maxEntries)] {
		out.Entries = append(out.Entries, e.ChannelEntry)
	}
	return out
}

// order compares two values so that true is sorted before false.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func deprecated(message string) *packagesv1.Deprecation {
	if message == "" {
		return nil
	}
	return &packagesv1.Deprecation{Message: message}
}

// clean returns a short text as valid UTF-8 without control characters.
func clean(text string) string {
	return status.Text(text[:min(len(text), maxText)])
}
