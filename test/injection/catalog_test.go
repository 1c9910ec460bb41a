package injection

import (
	"encoding/json"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/resolver"
)

// catalogOf contains one blob of each schema, and one of each type of requirement.
type catalogOf struct {
	Package      declcfg.Package
	Channel      declcfg.Channel
	Bundle       declcfg.Bundle
	Deprecation  declcfg.Deprecation
	Version      property.Package          `json:"olm.package"`
	Owned        property.GVK              `json:"olm.gvk"`
	Kind         *property.GVKRequired     `json:"olm.gvk.required"`
	Other        *property.PackageRequired `json:"olm.package.required"`
	Label        *label                    `json:"olm.label.required"`
	Constraint   *constraint               `json:"olm.constraint"`
	Custom       *property.Property        `json:"custom"`
	MaxOpenShift *string                   `json:"olm.maxOpenShiftVersion"`
}

type label struct {
	Label string `json:"label"`
}

// constraint has the fields of an olm.constraint, whose own type contains itself.
type constraint struct {
	FailureMessage string                    `json:"failureMessage,omitempty"`
	CEL            *rule                     `json:"cel,omitempty"`
	GVK            *property.GVK             `json:"gvk,omitempty"`
	Package        *property.PackageRequired `json:"package,omitempty"`
	All            *members                  `json:"all,omitempty"`
}

type rule struct {
	Rule string `json:"rule"`
}

type members struct {
	Constraints []struct {
		FailureMessage string        `json:"failureMessage,omitempty"`
		GVK            *property.GVK `json:"gvk,omitempty"`
	} `json:"constraints"`
}

func harmlessCatalog() *catalogOf {
	entry := declcfg.DeprecationEntry{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaPackage}, Message: "use another"}
	return &catalogOf{
		Package: declcfg.Package{Schema: declcfg.SchemaPackage, Name: "op", DefaultChannel: "stable"},
		Channel: declcfg.Channel{Schema: declcfg.SchemaChannel, Name: "stable", Package: "op",
			Entries: []declcfg.ChannelEntry{{Name: "op.v1", Replaces: "op.v0", Skips: []string{"op.v0.1"}, SkipRange: "<1.0.0"}}},
		Bundle:      declcfg.Bundle{Schema: declcfg.SchemaBundle, Name: "op.v1", Package: "op", Image: "example.com/op@sha256:1"},
		Deprecation: declcfg.Deprecation{Schema: declcfg.SchemaDeprecation, Package: "op", Entries: []declcfg.DeprecationEntry{entry}},
		Version:     property.Package{PackageName: "op", Version: "1.0.0"},
		Owned:       property.GVK{Group: "example.com", Version: "v1", Kind: "Op"},
	}
}

// blobs returns the catalog as documents.
func (c *catalogOf) blobs(t *testing.T) []byte {
	t.Helper()
	add := func(kind string, value any) {
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		if string(raw) != "null" {
			c.Bundle.Properties = append(c.Bundle.Properties, property.Property{Type: kind, Value: raw})
		}
	}
	add(property.TypePackage, c.Version)
	add(property.TypeGVK, c.Owned)
	add(property.TypeGVKRequired, c.Kind)
	add(property.TypePackageRequired, c.Other)
	add(catalog.TypeLabelRequired, c.Label)
	add(property.TypeConstraint, c.Constraint)
	add("olm.maxOpenShiftVersion", c.MaxOpenShift)
	if c.Custom != nil {
		c.Bundle.Properties = append(c.Bundle.Properties, *c.Custom)
	}
	var out []byte
	for _, blob := range []any{c.Package, c.Channel, c.Bundle, c.Deprecation} {
		raw, err := json.Marshal(blob)
		require.NoError(t, err)
		out = append(out, raw...)
	}
	return out
}

// rival returns a ClusterServiceVersion that a user created and that owns the same kind.
func (c *catalogOf) rival(t *testing.T) *operatorsv1alpha1.ClusterServiceVersion {
	t.Helper()
	value, err := json.Marshal(c.Owned)
	require.NoError(t, err)
	text := catalog.PropertiesText([]catalog.Property{{Type: property.TypeGVK, Value: value}})
	return &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "rival", Annotations: map[string]string{names.AnnotationProperties: text}}}
}

// Every place of every blob of a file-based catalog.
func TestCatalogs(t *testing.T) {
	t.Parallel()
	all := Places[catalogOf]()
	require.GreaterOrEqual(t, len(all), 40)
	for _, p := range all {
		for _, text := range Strings() {
			c := harmlessCatalog()
			p.Set(c, text)
			for output, written := range outputsOfCatalog(t, c.blobs(t), c.rival(t)) {
				assert.NoError(t, CheckText(written), "%s: %q in %s", output, text, p.Path)
			}
		}
	}
}

func TestTheCatalogItselfIsAccepted(t *testing.T) {
	c := harmlessCatalog()
	outputs := outputsOfCatalog(t, c.blobs(t), c.rival(t))
	require.Equal(t, "use another", outputs["deprecation"])
	require.Empty(t, outputs["warnings"]+outputs["problem"]+outputs["held back"])
	require.Contains(t, outputs["problem with a rival"], "provide Op (example.com/v1)")
	c = harmlessCatalog()
	c.Constraint = &constraint{FailureMessage: "no luck", GVK: &property.GVK{Group: "a.example.com", Version: "v1", Kind: "A"}}
	require.Contains(t, outputsOfCatalog(t, c.blobs(t), c.rival(t))["problem"], "(no luck)")
}

// outputsOfCatalog returns all texts that Remit writes about a catalog and a Subscription to its package.
func outputsOfCatalog(t *testing.T, blobs []byte, rival *operatorsv1alpha1.ClusterServiceVersion) map[string]string {
	t.Helper()
	out := map[string]string{}
	snapshot, err := fbc.Loader{}.FromFiles(t.Context(), map[string][]byte{"catalog.json": blobs})
	if err != nil {
		out["refusal"] = err.Error()
		return out
	}
	out["warnings"] = strings.Join(snapshot.Warnings, "\n")
	snapshot.Key = types.NamespacedName{Namespace: "ops", Name: "cat"}
	for _, name := range snapshot.PackageNames() {
		out["deprecation"] = snapshot.Packages[name].Deprecation
		for _, b := range snapshot.Packages[name].Bundles {
			out["bundle"] += b.Image + "\n" + b.Version + "\n"
			for _, p := range b.Properties {
				out["bundle"] += p.Type + "\n"
			}
		}
		for channel, c := range snapshot.Packages[name].Channels {
			for _, e := range c.Entries {
				out["edges"] += e.Replaces + "\n" + strings.Join(e.Skips, "\n") + "\n" + e.SkipRange + "\n"
			}
			if c.Deprecation != "" {
				out["deprecation of channel "+channel] = c.Deprecation
			}
		}
	}
	store := &catalog.Store{}
	store.Put(snapshot)
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "sub", UID: "uid"},
		Spec: &operatorsv1alpha1.SubscriptionSpec{CatalogSourceNamespace: "ops", CatalogSource: "cat", Package: "op", Channel: "stable"}}
	in := resolver.Input{Namespace: "ops", Catalogs: store, Targets: []string{"ops"}, Indexes: &resolver.Indexes{},
		Visible: []types.NamespacedName{snapshot.Key}, Account: scoped.Account{Namespace: "ops", Name: "installer"}}
	for suffix, others := range map[string][]*operatorsv1alpha1.ClusterServiceVersion{"": nil, " with a rival": {rival}} {
		answer, err := in.Resolve(t.Context(), resolver.Full(), resolver.Namespace{Subjects: []resolver.Subject{{Subscription: sub}}, Others: others})
		if err != nil {
			out["refusal of the namespace"+suffix] = err.Error()
		}
		for _, p := range answer.Problems {
			out["problem"+suffix] = p.Message
		}
		for _, p := range answer.HeldBack {
			out["held back"+suffix] = p.Message
		}
	}
	return out
}
