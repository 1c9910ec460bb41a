package packages

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// described is the description of a bundle.
type described struct {
	packagesv1.CSVDescription
	// labels are the labels of the ClusterServiceVersion.
	labels map[string]string
	// icon is the index of its icon in the record, or -1.
	icon int
	// isBrief is true if the description was omitted.
	isBrief bool
}

// brief returns the description without what brief descriptions omit.
func (d described) brief() described {
	return described{CSVDescription: brief(d.CSVDescription), icon: d.icon, isBrief: true}
}

// common contains the fields that have the same name in the spec of a ClusterServiceVersion and in olm.csv.metadata.
type common struct {
	DisplayName    string                           `json:"displayName"`
	Description    string                           `json:"description"`
	Provider       operatorsv1alpha1.AppLink        `json:"provider"`
	Keywords       []string                         `json:"keywords"`
	Links          []operatorsv1alpha1.AppLink      `json:"links"`
	Maintainers    []operatorsv1alpha1.Maintainer   `json:"maintainers"`
	Maturity       string                           `json:"maturity"`
	MinKubeVersion string                           `json:"minKubeVersion"`
	InstallModes   []operatorsv1alpha1.InstallMode  `json:"installModes"`
	NativeAPIs     []metav1.GroupVersionKind        `json:"nativeAPIs"`
	RelatedImages  []operatorsv1alpha1.RelatedImage `json:"relatedImages"`
}

// spec is the part of the spec of a ClusterServiceVersion that is displayed.
type spec struct {
	common
	Icon                      []packagesv1.Icon                           `json:"icon"`
	CustomResourceDefinitions operatorsv1alpha1.CustomResourceDefinitions `json:"customresourcedefinitions"`
	APIServiceDefinitions     operatorsv1alpha1.APIServiceDefinitions     `json:"apiservicedefinitions"`
}

// metadata is the value of olm.csv.metadata.
type metadata struct {
	common
	Annotations               map[string]string                           `json:"annotations"`
	Labels                    map[string]string                           `json:"labels"`
	CustomResourceDefinitions operatorsv1alpha1.CustomResourceDefinitions `json:"crdDescriptions"`
	APIServiceDefinitions     operatorsv1alpha1.APIServiceDefinitions     `json:"apiServiceDefinitions"`
}

// parse decodes a ClusterServiceVersion or the value of olm.csv.metadata. The result is empty if the text is malformed.
func parse(text []byte) described {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
			Labels      map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if json.Unmarshal(text, &head) == nil && head.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
		var s spec
		if json.Unmarshal(head.Spec, &s) != nil {
			return described{}
		}
		out := s.described()
		out.Icon, out.CustomResourceDefinitions, out.APIServiceDefinitions = s.Icon, s.CustomResourceDefinitions, s.APIServiceDefinitions
		out.Annotations, out.labels = head.Metadata.Annotations, head.Metadata.Labels
		return out
	}
	var m metadata
	if json.Unmarshal(text, &m) != nil {
		return described{}
	}
	out := m.described()
	out.CustomResourceDefinitions, out.APIServiceDefinitions = m.CustomResourceDefinitions, m.APIServiceDefinitions
	out.Annotations, out.labels = m.Annotations, m.Labels
	return out
}

func (c common) described() described {
	out := described{CSVDescription: packagesv1.CSVDescription{
		DisplayName: c.DisplayName, LongDescription: c.Description, Provider: c.Provider, Keywords: c.Keywords, Links: c.Links,
		Maintainers: c.Maintainers, Maturity: c.Maturity, MinKubeVersion: c.MinKubeVersion, InstallModes: c.InstallModes, NativeAPIs: c.NativeAPIs,
	}}
	seen := map[string]bool{"": true}
	for _, image := range c.RelatedImages {
		if !seen[image.Image] {
			seen[image.Image] = true
			out.RelatedImages = append(out.RelatedImages, image.Image)
		}
	}
	return out
}

// Shared returns the labels that all packages of a catalog have: those of the CatalogSource, as far as they are inherited, and
// those that name it.
func (s Source) Shared() map[string]string {
	out := Inherited(s.Labels)
	out[packagesv1.LabelCatalog], out[packagesv1.LabelCatalogNamespace] = s.Name, s.Namespace
	return out
}

// Inherited returns the labels of a CatalogSource that its packages inherit.
func Inherited(all map[string]string) map[string]string {
	out := map[string]string{}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if size += len(key) + len(all[key]); size > maxLabelBytes || len(out) == maxLabels {
			break
		}
		out[key] = all[key]
	}
	return out
}

// labelsOf returns the labels that describe a package, without those that all packages of the catalog have. The values of the provider
// labels are not always valid label values, as in OLM v0.
func labelsOf(provider, url string, csv map[string]string) map[string]string {
	out := map[string]string{}
	for _, family := range []struct{ prefix, assumed string }{{packagesv1.PrefixArch, "amd64"}, {packagesv1.PrefixOS, "linux"}} {
		found := 0
		for _, key := range slices.Sorted(maps.Keys(csv)) {
			value := csv[key]
			if strings.HasPrefix(key, family.prefix) && found < maxSupported &&
				len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
				out[key] = value
				found++
			}
		}
		if found == 0 {
			out[family.prefix+family.assumed] = packagesv1.ValueSupported
		}
	}
	out[packagesv1.LabelProvider], out[packagesv1.LabelProviderURL] = clean(provider), clean(url)
	return out
}
