package packages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsversion "github.com/operator-framework/api/pkg/lib/version"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/budget"
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
	// Manifest is the PackageManifest without icons, and without the labels that Source.Shared returns.
	Manifest packagesv1.PackageManifest `json:"manifest"`
	// Icons contains the distinct icons of the channels. Uses maps each channel that has an icon to the icon's index.
	Icons []packagesv1.Icon `json:"icons,omitempty"`
	Uses  map[string]int    `json:"uses,omitempty"`
	// IsIncomplete means that reading a description took too long. It is not sent.
	IsIncomplete bool `json:"-"`
}

// Describe returns the record of a package. Parts that cannot be read or are too large are omitted; the context limits the time
// for reading. If displays is nil, the record contains only data from the package itself.
func Describe(ctx context.Context, from Source, pkg *catalog.Package, displays catalog.DisplayReader) Record {
	d := &describer{Record: Record{Uses: map[string]int{}}, displays: displays, pkg: pkg, heads: map[string]described{}}
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
		if err != nil || d.isFull && name != pkg.DefaultChannel {
			continue // loaders reject a channel without a head
		}
		seen := d.head(ctx, name, head.Name, icon)
		d.add(channel(pkg, pkg.Channels[name], head.Name, seen.CSVDescription))
		if seen.icon >= 0 {
			d.Uses[name] = seen.icon
		}
		if name == pkg.DefaultChannel {
			m.Status.Provider, supported = seen.Provider, seen.labels
		}
	}
	m.Labels = labelsOf(m.Status.Provider.Name, m.Status.Provider.URL, supported)
	d.fit()
	return d.Record
}

// describer builds the record of one package.
type describer struct {
	Record
	displays catalog.DisplayReader
	pkg      *catalog.Package
	// heads contains the descriptions of the bundles that are heads of channels, because many channels can have the same
	// head. They are brief if the channels' descriptions are omitted.
	heads map[string]described
	// size estimates the size of the manifest's channels, and omitted is the number of omissions that were applied to them.
	size    int64
	omitted int
	// isFull is true if a channel was omitted because of the size.
	isFull bool
}

// packageIcon returns the icon of the package, if any.
func (d *describer) packageIcon(ctx context.Context, pkg string) []packagesv1.Icon {
	if d.displays == nil {
		return nil
	}
	text, err := d.displays.PackageDisplay(ctx, pkg)
	if err != nil || len(text) == 0 {
		d.note(ctx, err)
		return nil
	}
	var object struct{ Icon packagesv1.Icon }
	if json.Unmarshal(text, &object) != nil || object.Icon.Base64Data == "" {
		return nil
	}
	return []packagesv1.Icon{object.Icon}
}

// head returns the description of the head of a channel, which it reads once for all channels, and once more for the default
// channel, whose description is omitted last and determines the package's labels. packageIcons are used if the bundle has none.
func (d *describer) head(ctx context.Context, channel, name string, packageIcons []packagesv1.Icon) described {
	seen, ok := d.heads[name]
	if ok && (!seen.isBrief || channel != d.pkg.DefaultChannel) {
		return seen
	}
	seen = d.bundle(ctx, d.pkg, channel, name)
	seen.icon = d.use(append(seen.Icon, packageIcons...))
	seen.Icon = nil
	d.heads[name] = seen
	if d.omitted > 0 {
		d.heads[name] = seen.brief()
	}
	return seen
}

// bundle returns the description of a bundle.
func (d *describer) bundle(ctx context.Context, pkg *catalog.Package, channel, name string) described {
	out := described{icon: -1}
	if d.displays != nil {
		text, err := d.read(ctx, channel, name)
		if err == nil && isDisplayable(text) {
			out = parse(text)
		}
		d.note(ctx, err)
	}
	if parsed, err := versions.Parse(pkg.Bundles[name].Version); err == nil {
		out.Version = operatorsversion.OperatorVersion{Version: parsed}
	}
	return out
}

func (d *describer) read(ctx context.Context, channel, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.displays.BundleDisplay(ctx, d.pkg.Name, channel, name)
}

// note records whether a description could not be read because that took too long.
func (d *describer) note(ctx context.Context, err error) {
	var slow interface{ Timeout() bool }
	d.IsIncomplete = d.IsIncomplete || err != nil && (ctx.Err() != nil || errors.As(err, &slow) && slow.Timeout())
}

// isDisplayable reports whether a description can be decoded within the memory of one object.
func isDisplayable(text []byte) bool {
	return len(text) > 0 && len(text) <= catalog.MaxDisplayBytes && budget.CheckStructures(text) == nil && catalog.JSONCost(text) <= maxParse
}

// use returns the index of the first icon that is not too large, or -1.
func (d *describer) use(icons []packagesv1.Icon) int {
	for _, icon := range icons {
		if icon.Base64Data == "" || len(icon.Base64Data)+len(icon.Mediatype) > MaxIconBytes {
			continue
		}
		at := slices.Index(d.Icons, icon)
		if at < 0 && len(d.Icons) == maxIcons {
			return -1
		}
		if at < 0 {
			at = len(d.Icons)
			d.Icons = append(d.Icons, icon)
		}
		return at
	}
	return -1
}

// maxIcons bounds the number of distinct icons of one package.
const maxIcons = 4

// omissions returns functions that omit parts of a channel, in the order in which they are applied to all channels until the
// manifest is within its size limit: the descriptions of channels other than the default, all descriptions, the entries
// of the channels, and their deprecation messages.
func (d *describer) omissions() []func(*packagesv1.PackageChannel) {
	return []func(*packagesv1.PackageChannel){
		func(c *packagesv1.PackageChannel) {
			if c.Name != d.pkg.DefaultChannel {
				c.CurrentCSVDesc = brief(c.CurrentCSVDesc)
			}
		},
		func(c *packagesv1.PackageChannel) { c.CurrentCSVDesc = brief(c.CurrentCSVDesc) },
		func(c *packagesv1.PackageChannel) { c.Entries = slices.Clone(c.Entries[:min(len(c.Entries), 1)]) },
		func(c *packagesv1.PackageChannel) {
			for i := range c.Entries {
				c.Entries[i].Deprecation = nil
			}
			c.Deprecation = nil
		},
	}
}

// add adds a channel to the manifest. What does not fit is omitted at once, so that the memory is limited while the channels are
// read: descriptions and messages are shared by the channels, but not in the encoded manifest. In the end, channels other
// than the default are omitted.
func (d *describer) add(c packagesv1.PackageChannel) {
	all := d.omissions()
	for _, omit := range all[:d.omitted] {
		omit(&c)
	}
	channels := &d.Manifest.Status.Channels
	d.size += sizeOf(&c)
	if d.omitted == len(all) && d.size > MaxManifestBytes && c.Name != d.pkg.DefaultChannel {
		d.isFull = true
		return
	}
	*channels = append(*channels, c)
	for d.size > MaxManifestBytes && d.omitted < len(all) {
		d.size = 0
		for i := range *channels {
			all[d.omitted](&(*channels)[i])
			d.size += sizeOf(&(*channels)[i])
		}
		d.omitted++
		for name, seen := range d.heads {
			d.heads[name] = seen.brief()
		}
	}
}

// sizeOf estimates the size of a channel in the manifest. Descriptions of many empty values take more memory than text, of which
// a manifest can have up to twice its size limit.
func sizeOf(c *packagesv1.PackageChannel) int64 {
	size := budget.Of(c)
	return max(size.Text, size.Memory/memoryPerByte)
}

// fit applies the omissions that add has not applied until the encoded manifest is within its size limit.
func (d *describer) fit() {
	m := &d.Manifest
	for _, omit := range d.omissions()[d.omitted:] {
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
			e.version, _ = versions.Parse(b.Version) // without a valid version, the entry comes last
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
	return status.Text(strings.Clone(text[:min(len(text), maxText)]))
}
