package resolver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// requiring returns a bundle with properties like "olm.package.required {...}".
func requiring(properties ...string) *catalog.Bundle {
	b := &catalog.Bundle{Name: "op.v1.0.0", Package: "op", Version: "1.0.0"}
	for _, text := range properties {
		name, value, _ := strings.Cut(text, " ")
		b.Properties = append(b.Properties, catalog.Property{Type: name, Value: json.RawMessage(value)})
	}
	return b
}

// requires returns an olm.constraint property.
func requires(constraint string) string {
	return `olm.constraint {"failureMessage": "ask the author", ` + constraint + `}`
}

const (
	gvk        = `{"group": "example.com", "version": "v1", "kind": "Thing"}`
	otherGVK   = `{"group": "example.com", "version": "v1", "kind": "Other"}`
	needsThing = "olm.gvk.required " + gvk
)

func TestUnmetRequirements(t *testing.T) {
	dep := &catalog.Bundle{Name: "dep.v1.2.0", Package: "dep", Version: "1.2.0", Properties: []catalog.Property{
		{Type: property.TypeGVK, Value: json.RawMessage(gvk)}, {Type: catalog.TypeLabel, Value: json.RawMessage(`{"label": "blue"}`)},
	}}
	offered := &catalog.Snapshot{Key: types.NamespacedName{Name: "community"}, Digest: "d", Packages: map[string]*catalog.Package{"dep": {
		Name: "dep", DefaultChannel: "stable", Bundles: map[string]*catalog.Bundle{dep.Name: dep},
		Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: map[string]catalog.Entry{dep.Name: {Name: dep.Name}}}},
	}}}
	installed := Operator{Name: dep.Name, Package: "dep", Version: "1.2.0", Properties: dep.Properties}
	const providesThing, fromCatalog = `bundle "op.v1.0.0" requires an operator providing an API with group: example.com, version: v1, kind: Thing`,
		"; available: package dep, version 1.2.0, in catalog community"
	for _, row := range []struct {
		name     string
		requires []string
		cluster  Cluster
		served   string
		want     string
	}{
		{name: "nothing is required"},
		{name: "a kind that the cluster serves", requires: []string{needsThing}, served: "Thing"},
		{name: "a kind that an operator provides", requires: []string{needsThing}, cluster: Cluster{Installed: []Operator{installed}}},
		{name: "a kind that the bundle itself provides", requires: []string{needsThing, "olm.gvk " + gvk}},
		{name: "a range of the bundle's own package", requires: []string{`olm.package.required {"packageName": "op", "versionRange": ">=1.0.0"}`}},
		{name: "a kind that nothing provides", requires: []string{needsThing}, want: providesThing + "; no available catalog provides one"},
		{name: "a kind that a catalog offers", requires: []string{needsThing}, cluster: Cluster{Catalogs: []*catalog.Snapshot{offered}}, want: providesThing + fromCatalog},
		{name: "a package", requires: []string{`olm.package.required {"packageName": "dep", "versionRange": ">=1.0.0 <2.0.0"}`}, cluster: Cluster{Installed: []Operator{installed}}},
		{name: "a package in another version", requires: []string{`olm.package.required {"packageName": "dep", "versionRange": ">=2.0.0"}`},
			cluster: Cluster{Installed: []Operator{installed}, Catalogs: []*catalog.Snapshot{offered}},
			want: `bundle "op.v1.0.0" requires an operator with package: dep and with version in range: >=2.0.0; ` +
				`installed: package dep, version 1.2.0; no available catalog provides one`},
		{name: "a label", requires: []string{`olm.label.required {"label": "blue"}`}, cluster: Cluster{Installed: []Operator{installed}}},
		{name: "all members of one operator", requires: []string{requires(`"all": {"constraints": [{"gvk": ` + gvk + `}, {"package": {"packageName": "dep", "versionRange": ">=0.0.0"}}]}`)},
			cluster: Cluster{Installed: []Operator{installed}}},
		{name: "all kinds from the cluster", requires: []string{requires(`"all": {"constraints": [{"gvk": ` + gvk + `}, {"gvk": ` + otherGVK + `}]}`)}, served: "Thing Other"},
		{name: "not only one of all kinds", requires: []string{requires(`"all": {"constraints": [{"gvk": ` + gvk + `}, {"gvk": ` + otherGVK + `}]}`)}, served: "Thing",
			want: providesThing + ` and providing an API with group: example.com, version: v1, kind: Other (ask the author); no available catalog provides one`},
		{name: "any kind", requires: []string{requires(`"any": {"constraints": [{"gvk": ` + gvk + `}, {"gvk": ` + otherGVK + `}]}`)}, served: "Other"},
		{name: "several packages", requires: []string{requires(`"all": {"constraints": [{"package": {"packageName": "dep", "versionRange": ">=0.0.0"}}, ` +
			`{"package": {"packageName": "more", "versionRange": "1.x"}}]}`)},
			cluster: Cluster{Installed: []Operator{installed}},
			want:    `bundle "op.v1.0.0" requires an operator with package: more and with version in range: 1.x (ask the author); no available catalog provides one`},
		{name: "a CEL rule", requires: []string{requires(`"cel": {"rule": "properties.exists(p, p.type == 'olm.label')"}`)}, cluster: Cluster{Installed: []Operator{installed}}},
		{name: "a CEL rule that no operator satisfies", requires: []string{requires(`"cel": {"rule": "properties.exists(p, p.type == 'olm.label')"}`)}, served: "Thing",
			want: `bundle "op.v1.0.0" requires an operator that satisfies the CEL rule "properties.exists(p, p.type == 'olm.label')" (ask the author); no available catalog provides one`},
		{name: "invalid", requires: []string{`olm.package.required {"packageName": "dep", "versionRange": "?"}`},
			want: `error: bundle "op.v1.0.0" has an invalid dependency: property olm.package.required: version range "?": ` +
				"Last element in range is '||'"},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.cluster.Indexes = &Indexes{}
			row.cluster.Serves = func(k schema.GroupVersionKind) bool {
				require.Equal(t, "example.com", k.Group)
				return strings.Contains(row.served, k.Kind)
			}
			unmet, err := row.cluster.Unmet(t.Context(), Light(), requiring(row.requires...))
			got := ""
			switch {
			case err != nil:
				got = "error: " + err.Error()
			case len(unmet) > 0:
				got = DescribeUnmet("op.v1.0.0", unmet)
			}
			require.Equal(t, row.want, got)
		})
	}
}

func TestUnmetRequirementsAreLimited(t *testing.T) {
	var many []string
	for range 20 {
		many = append(many, needsThing)
	}
	unmet, err := Cluster{Indexes: &Indexes{}}.Unmet(t.Context(), Light(), requiring(many...))
	require.NoError(t, err)
	require.Len(t, unmet, 20)
	require.Contains(t, DescribeUnmet("op.v1.0.0", unmet), "and has 17 more unmet requirements")

	limits := Light()
	limits.Cost = 10
	_, err = Cluster{Indexes: &Indexes{}}.Unmet(t.Context(), limits, requiring(many...))
	var exceeded *LimitError
	require.True(t, errors.As(err, &exceeded))
	require.EqualError(t, err, "the check of the bundle's requirements was stopped after 10 steps, the limit for one bundle")
}
