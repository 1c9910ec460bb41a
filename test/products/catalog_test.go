package products

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/operator-framework/api/pkg/constraints"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/display"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/resolver"
)

const (
	// content is the size of a catalog in a ConfigMap, in bytes.
	content = 1_000_000
	// smallText is the size of each of the two lists or texts when a pair is tried for the first time.
	smallText = 4 * small
	// mostOfCatalogs is the number of pairs of a catalog that are tried with large lists and texts.
	mostOfCatalogs = 60
	// maxCatalog is the maximum number of bytes that are allocated for one catalog, in all steps together and including what
	// is freed on the way.
	maxCatalog = 200 << 20
	// maxShown is the maximum number of values in the records that package-server gets.
	maxShown  = 500_000
	pkg, head = "op", "op.v1"
)

// published is what a tenant publishes in a catalog: one package.
type published struct {
	Package      declcfg.Package      `json:"package"`
	Channels     []declcfg.Channel    `json:"channels"`
	Bundles      []declcfg.Bundle     `json:"bundles"`
	Deprecations declcfg.Deprecation  `json:"deprecations"`
	Metadata     property.CSVMetadata `json:"metadata"`
	// The properties of the first bundle.
	Constraint   constraints.Constraint     `json:"constraint"`
	Required     []property.PackageRequired `json:"required"`
	GVKs         []property.GVK             `json:"gvks"`
	GVKsRequired []property.GVKRequired     `json:"gvksRequired"`
}

// text returns the catalog, in which everything that has not been filled has the smallest valid value.
func (p *published) text(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	encode := json.NewEncoder(&out)
	p.Package.Schema, p.Package.Name = declcfg.SchemaPackage, cmp.Or(p.Package.Name, pkg)
	if len(p.Channels) == 0 {
		p.Channels = make([]declcfg.Channel, 1)
	}
	for i := range p.Channels {
		completeChannel(&p.Channels[i])
	}
	p.Package.DefaultChannel = cmp.Or(p.Package.DefaultChannel, p.Channels[0].Name)
	completeProperties(p.Package.Properties)
	require.NoError(t, encode.Encode(p.Package))
	for i := range p.Channels {
		require.NoError(t, encode.Encode(p.Channels[i]))
	}
	if len(p.Bundles) == 0 {
		p.Bundles = make([]declcfg.Bundle, 1)
	}
	for i := range p.Bundles {
		p.completeBundle(t, i)
		require.NoError(t, encode.Encode(p.Bundles[i]))
	}
	if d := &p.Deprecations; len(d.Entries) > 0 {
		d.Schema, d.Package = declcfg.SchemaDeprecation, cmp.Or(d.Package, pkg)
		p.completeDeprecations()
		require.NoError(t, encode.Encode(d))
	}
	return out.Bytes()
}

// completeChannel makes the entries a chain. Schema contains the name if the channel was added to a list.
func completeChannel(c *declcfg.Channel) {
	c.Name, c.Package, c.Schema = cmp.Or(c.Name, c.Schema, "c"), cmp.Or(c.Package, pkg), declcfg.SchemaChannel
	if len(c.Entries) == 0 || c.Entries[0].Name != nameOf(0) && c.Entries[0].Name != nameOf(1) {
		c.Entries = append([]declcfg.ChannelEntry{{Name: head}}, c.Entries...)
	} else {
		c.Entries[0].Name = head
	}
	for i := range c.Entries[:len(c.Entries)-1] {
		c.Entries[i].Replaces = cmp.Or(c.Entries[i].Replaces, c.Entries[i+1].Name)
	}
	completeProperties(c.Properties)
}

// completeBundle adds the properties. Schema contains the name if the bundle was added to a list.
func (p *published) completeBundle(t *testing.T, i int) {
	t.Helper()
	b := &p.Bundles[i]
	if i == 0 {
		b.Schema = head
	}
	b.Name, b.Package, b.Image = cmp.Or(b.Name, b.Schema), cmp.Or(b.Package, pkg), cmp.Or(b.Image, "images.test/i")
	b.Schema = declcfg.SchemaBundle
	completeProperties(b.Properties)
	add := func(kind string, value any) {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		b.Properties = append(b.Properties, property.Property{Type: kind, Value: text})
	}
	add(property.TypePackage, property.Package{PackageName: b.Package, Version: fmt.Sprintf("1.0.%d", i)})
	if i > 0 {
		return
	}
	add(property.TypeCSVMetadata, p.Metadata)
	if !reflect.ValueOf(p.Constraint).IsZero() {
		add(constraints.OLMConstraintType, p.Constraint)
	}
	for _, r := range p.Required {
		add(property.TypePackageRequired, property.PackageRequired{PackageName: r.PackageName, VersionRange: cmp.Or(r.VersionRange, ">=1.0.0")})
	}
	for _, g := range p.GVKs {
		add(property.TypeGVK, property.GVK{Group: g.Group, Version: cmp.Or(g.Version, "v1"), Kind: cmp.Or(g.Kind, "K")})
	}
	for _, g := range p.GVKsRequired {
		add(property.TypeGVKRequired, property.GVKRequired{Group: g.Group, Version: cmp.Or(g.Version, "v1"), Kind: cmp.Or(g.Kind, "K")})
	}
}

// completeDeprecations makes the entries refer to channels and bundles.
func (p *published) completeDeprecations() {
	entries := p.Deprecations.Entries
	for i := range entries {
		of := &entries[i].Reference
		switch {
		case of.Schema != "":
		case i < len(p.Channels):
			of.Schema, of.Name = declcfg.SchemaChannel, p.Channels[i].Name
		case i-len(p.Channels) < len(p.Bundles):
			of.Schema, of.Name = declcfg.SchemaBundle, p.Bundles[i-len(p.Channels)].Name
		default:
			of.Schema, of.Name = declcfg.SchemaBundle, nameOf(i)
		}
	}
}

func completeProperties(properties []property.Property) {
	for i := range properties {
		properties[i].Type = cmp.Or(properties[i].Type, nameOf(i))
		if properties[i].Value == nil {
			properties[i].Value = json.RawMessage("{}")
		}
	}
}

// catalogs implements resolver.Catalogs.
type catalogs struct{ *catalog.Snapshot }

// Get implements resolver.Catalogs.
func (c catalogs) Get(types.NamespacedName) (*catalog.Snapshot, bool) { return c.Snapshot, true }

// serve does everything that Remit does with a catalog: it loads the catalog, describes its packages for package-server, and
// resolves a Subscription.
func serve(t *testing.T, store *disk.Store, text []byte) cost {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := cost{}
	refuse := func(err error) bool {
		if err != nil && out.refused == "" {
			out.refused = err.Error()
		}
		return err != nil
	}
	loader := fbc.Loader{Limits: catalog.TenantDecoding()}
	displays, err := display.Record(store, &loader, nil)
	require.NoError(t, err)
	defer displays.Discard()
	snap, err := loader.Load(t.Context(), fstest.MapFS{"catalog.json": {Data: text}})
	if !refuse(err) && !refuse(displays.Finish("", snap)) {
		snap.Key = types.NamespacedName{Namespace: "ops", Name: "catalog"}
		for _, shownPackage := range snap.Packages {
			shown := packages.Describe(t.Context(), packages.Source{Namespace: "ops", Name: "catalog"}, shownPackage, snap.Displays)
			out.steps += budget.Of(&shown).Values
			refuse(json.NewEncoder(io.Discard).Encode(&shown))
		}
		in := resolver.Input{Namespace: "ops", Catalogs: catalogs{snap}, Visible: []types.NamespacedName{snap.Key}, Indexes: &resolver.Indexes{}}
		sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: pkg, UID: "u"},
			Spec: &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "catalog", CatalogSourceNamespace: "ops", Package: pkg}}
		answer, err := in.Resolve(t.Context(), resolver.Light(), resolver.Namespace{Subjects: []resolver.Subject{{Subscription: sub}}})
		refuse(err)
		for _, p := range answer.Problems {
			refuse(fmt.Errorf("%s", p.Message))
		}
	}
	runtime.ReadMemStats(&after)
	out.allocated = after.TotalAlloc - before.TotalAlloc
	return out
}

// A field that a later version of the formats adds is part of the walk without a change here.
func TestNoPairOfACatalogMultiplies(t *testing.T) {
	store, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	written := func(size int, fields ...Field) []byte {
		p := &published{}
		for _, f := range fields {
			f.Fill(p, size)
		}
		return p.text(t)
	}
	with := func(size int, fields ...Field) cost {
		text := written(size, fields...)
		for len(text) > content { // because of what completes the entries
			size = size * 9 / 10
			text = written(size, fields...)
		}
		return serve(t, store, text)
	}
	require.Empty(t, with(0).refused, "the smallest catalog is valid")
	fields := FieldsAndTexts(reflect.TypeFor[published]())
	require.Greater(t, len(fields), 70)
	pairs := multiplying(func(fields ...Field) int64 { return int64(with(smallText, fields...).allocated) }, fields)
	t.Logf("%d fields; %d of %d pairs multiply", len(fields), len(pairs), len(fields)*(len(fields)-1)/2)
	require.NotEmpty(t, pairs, "the walk finds what multiplies")
	tryLarge(t, pairs[:min(len(pairs), mostOfCatalogs)], content, with, maxCatalog, maxShown)
}
