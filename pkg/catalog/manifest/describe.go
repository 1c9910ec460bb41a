package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	kindCSV = "ClusterServiceVersion"
	kindCRD = "CustomResourceDefinition"
	// annotationProperties on a CSV contains additional properties as a JSON list.
	annotationProperties = "olm.properties"
)

// Description describes a bundle, as derived from its manifests.
type Description struct {
	// Name is the name of the ClusterServiceVersion.
	Name    string
	Version string
	// Replaces, Skips and SkipRange are the CSV's upgrade edges.
	Replaces  string
	Skips     []string
	SkipRange string
	// OwnedCRDs lists the names of the CRDs that the CSV owns, in the CSV's order.
	OwnedCRDs []string
	// Properties are derived from the manifests, without duplicates.
	Properties []property.Property
}

// Entry returns the bundle's entry in a channel.
func (d *Description) Entry() declcfg.ChannelEntry {
	return declcfg.ChannelEntry{Name: d.Name, Replaces: d.Replaces, Skips: d.Skips, SkipRange: d.SkipRange}
}

// Bundle returns the bundle as an object of a file-based catalog that includes its manifests.
func (d *Description) Bundle(pkg string, manifests [][]byte) declcfg.Bundle {
	out := declcfg.Bundle{Schema: declcfg.SchemaBundle, Name: d.Name, Package: pkg, Properties: slices.Clone(d.Properties)}
	for _, m := range manifests {
		out.Properties = append(out.Properties, property.MustBuildBundleObject(m))
	}
	return out
}

// Describe derives the description of a bundle of the named package from its manifests, which must be JSON, as returned
// by catalog.ReadObjects. Exactly one of them must be a CSV, not counting identical copies.
func Describe(pkg string, content *catalog.Content) (*Description, error) {
	var csvs []csv
	var crds []crd
	var first []byte
	for i, data := range content.Manifests {
		var kind struct{ Kind string }
		if err := json.Unmarshal(data, &kind); err != nil {
			return nil, fmt.Errorf("%s is not an object: %w", nameOf(content, i), err)
		}
		switch kind.Kind {
		case kindCSV:
			if first != nil && bytes.Equal(first, data) {
				continue
			}
			var c csv
			if err := json.Unmarshal(data, &c); err != nil {
				return nil, fmt.Errorf("%s: ClusterServiceVersion: %w", nameOf(content, i), err)
			}
			csvs, first = append(csvs, c), data
		case kindCRD:
			var c crd
			if err := json.Unmarshal(data, &c); err != nil {
				return nil, fmt.Errorf("%s: CustomResourceDefinition: %w", nameOf(content, i), err)
			}
			crds = append(crds, c)
		}
	}
	if len(csvs) != 1 {
		return nil, fmt.Errorf("bundle must have exactly one ClusterServiceVersion, but has %d", len(csvs))
	}
	return describe(pkg, &csvs[0], crds)
}

func nameOf(content *catalog.Content, i int) string {
	if name := content.Name(i); name != "" {
		return fmt.Sprintf("manifest %q", name)
	}
	return fmt.Sprintf("manifest %d", i+1)
}

func describe(pkg string, c *csv, crds []crd) (*Description, error) {
	if err := catalog.CheckName(c.Metadata.Name); err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion: %w", err)
	}
	d := &Description{
		Name:      c.Metadata.Name,
		Version:   c.Spec.Version,
		Replaces:  c.Spec.Replaces,
		Skips:     c.Spec.Skips,
		SkipRange: c.Metadata.Annotations[names.AnnotationSkipRange],
	}
	for _, owned := range c.Spec.CRDs.Owned {
		d.OwnedCRDs = append(d.OwnedCRDs, owned.Name)
	}
	if d.Version != "" {
		d.Properties = append(d.Properties, property.MustBuildPackage(pkg, d.Version))
	}
	provided := concat(c.Spec.CRDs.Owned, c.Spec.APIServices.Owned)
	for _, api := range dedupe(append(provided, versionsOf(crds, d.OwnedCRDs)...)) {
		d.Properties = append(d.Properties, property.MustBuildGVK(api.Group, api.Version, api.Kind))
	}
	for _, api := range dedupe(concat(c.Spec.CRDs.Required, c.Spec.APIServices.Required)) {
		d.Properties = append(d.Properties, property.MustBuildGVKRequired(api.Group, api.Version, api.Kind))
	}
	extra, err := c.extraProperties()
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: %w", d.Name, err)
	}
	d.Properties = property.Deduplicate(append(d.Properties, extra...))
	return d, nil
}

// These types contain only the fields that are needed here, so that mistakes in other parts of a CSV are reported when it
// is installed, not when the catalog is loaded.
type csv struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Version  string   `json:"version"`
		Replaces string   `json:"replaces"`
		Skips    []string `json:"skips"`
		CRDs     struct {
			Owned    []crdReference `json:"owned"`
			Required []crdReference `json:"required"`
		} `json:"customresourcedefinitions"`
		APIServices struct {
			Owned    []property.GVK `json:"owned"`
			Required []property.GVK `json:"required"`
		} `json:"apiservicedefinitions"`
	} `json:"spec"`
}

type crdReference struct {
	// Name is <plural>.<group>.
	Name    string `json:"name"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
}

func concat(crds []crdReference, services []property.GVK) []property.GVK {
	var out []property.GVK
	for _, r := range crds {
		_, group, _ := strings.Cut(r.Name, ".")
		out = append(out, property.GVK{Group: group, Version: r.Version, Kind: r.Kind})
	}
	return append(out, services...)
}

// versionsOf lists every served version of the owned CRDs, because CSVs often name only the newest.
func versionsOf(crds []crd, owned []string) []property.GVK {
	var out []property.GVK
	isOwned := sets.New(owned...)
	for i := range crds {
		if !isOwned.Has(crds[i].Metadata.Name) {
			continue
		}
		for _, v := range crds[i].Spec.Versions {
			if v.Served {
				out = append(out, property.GVK{Group: crds[i].Spec.Group, Version: v.Name, Kind: crds[i].Spec.Names.Kind})
			}
		}
	}
	return out
}

// dedupe removes duplicate and incomplete APIs.
func dedupe(apis []property.GVK) []property.GVK {
	var out []property.GVK
	seen := map[property.GVK]bool{}
	for _, a := range apis {
		if a.Version != "" && a.Kind != "" && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

func (c *csv) extraProperties() ([]property.Property, error) {
	text, ok := c.Metadata.Annotations[annotationProperties]
	if !ok {
		return nil, nil
	}
	var extra []property.Property
	if err := json.Unmarshal([]byte(text), &extra); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotationProperties, err)
	}
	for _, p := range extra {
		if p.Type == "" || len(p.Value) == 0 {
			return nil, errors.New("annotation " + annotationProperties + ": a property must have a type and a value")
		}
	}
	return extra, nil
}
