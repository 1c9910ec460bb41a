package resolver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Types of properties that operator-registry has no constants for (contract 1.3).
const (
	typeDeprecated    = "olm.deprecated"
	typeLabel         = "olm.label"
	typeLabelRequired = "olm.label.required"
)

// api is a kind that an operator owns.
type api struct{ Group, Version, Kind string }

func (a api) String() string { return fmt.Sprintf("%s (%s/%s)", a.Kind, a.Group, a.Version) }

// facts are what an operator offers and asks for: a bundle of a catalog, or an installed version.
type facts struct {
	name    string
	pkg     string
	version *semver.Version
	apis    []api
	// deprecated says that the bundle may not be installed anew (olm.deprecated).
	deprecated bool
	properties []catalog.Property

	mu       sync.Mutex
	read     bool
	needs    []requirement
	needsErr error
	// cost is that of reading the needs, which who finds them read pays, too: what a resolution costs does not
	// depend on who came before.
	cost int

	noteOnce sync.Once
	noteText string
}

func factsOf(b *catalog.Bundle) *facts {
	f := &facts{name: b.Name, pkg: b.Package, properties: b.Properties}
	f.setVersion(b.Version)
	f.readProperties()
	return f
}

func (f *facts) setVersion(text string) {
	if v, err := semver.Parse(text); err == nil {
		f.version = &v
	}
}

// readProperties takes what the index is made of. Values that cannot be read offer nothing.
func (f *facts) readProperties() {
	var owned apiSet
	for _, p := range f.properties {
		switch p.Type {
		case property.TypeGVK:
			var a api
			if json.Unmarshal(p.Value, &a) == nil {
				if owned.all == nil {
					owned.all = make([]api, 0, min(maxSearched, f.count(property.TypeGVK)))
				}
				owned.add(a)
			}
		case typeDeprecated:
			f.deprecated = true
		}
	}
	f.apis = owned.all
}

// count is how many properties of a type there are.
func (f *facts) count(t string) int {
	n := 0
	for i := range f.properties {
		if f.properties[i].Type == t {
			n++
		}
	}
	return n
}

// apiSet are kinds in order, each once. The zero value is empty; few are searched, and take no map.
type apiSet struct {
	all  []api
	many map[api]bool
}

// maxSearched is how many kinds are searched.
const maxSearched = 8

func (s *apiSet) add(a api) {
	if len(s.all) < maxSearched {
		if !slices.Contains(s.all, a) {
			s.all = append(s.all, a)
		}
		return
	}
	if s.many == nil {
		s.many = map[api]bool{}
		for _, known := range s.all {
			s.many[known] = true
		}
	}
	if !s.many[a] {
		s.many[a] = true
		s.all = append(s.all, a)
	}
}

// maxKept bounds the requirements that are kept of one operator. A hostile author's are read again each time, at the
// cost of who resolves, and take no memory.
const maxKept = 100

// requirements are what the operator needs of others. The error says which of its properties cannot be read, or is the
// meter's.
func (f *facts) requirements(m *meter) ([]requirement, error) {
	f.mu.Lock()
	read, needs, err, cost := f.read, f.needs, f.needsErr, f.cost
	f.mu.Unlock()
	if read {
		if err := m.Spend(cost); err != nil {
			return nil, err
		}
		return needs, err
	}
	before := m.spent
	needs, err = requirementsOf(m, f.properties)
	if m.err != nil {
		return nil, m.err
	}
	if err := m.Spend(costOfRequirement * len(needs)); err != nil {
		return nil, err
	}
	if len(needs) <= maxKept {
		f.mu.Lock()
		f.read, f.needs, f.needsErr, f.cost = true, needs, err, m.spent-before
		f.mu.Unlock()
	}
	return needs, err
}

// note is how a ClusterServiceVersion notes the properties.
func (f *facts) note() string {
	f.noteOnce.Do(func() { f.noteText = catalog.PropertiesText(f.properties) })
	return f.noteText
}

// notedFacts are those of an installed version as its own annotation says them; nil where it does not.
func notedFacts(csv *operatorsv1alpha1.ClusterServiceVersion, pkg string) *facts {
	var stated struct {
		Properties []catalog.Property `json:"properties"`
	}
	if text := csv.Annotations[names.AnnotationProperties]; text == "" || json.Unmarshal([]byte(text), &stated) != nil {
		return nil
	}
	f := &facts{name: csv.Name, pkg: pkg, properties: stated.Properties}
	f.setVersion(csv.Spec.Version.String())
	f.readProperties()
	return f
}

// costOfReading is that of installedFacts.
func costOfReading(csv *operatorsv1alpha1.ClusterServiceVersion) int {
	return len(csv.Annotations[names.AnnotationProperties]) * costOfByte / 10
}

// installedFacts are those of an installed version: as its own annotation says them, else as far as they follow
// from its ClusterServiceVersion.
func installedFacts(csv *operatorsv1alpha1.ClusterServiceVersion, pkg string) *facts {
	if f := notedFacts(csv, pkg); f != nil {
		return f
	}
	f := &facts{name: csv.Name, pkg: pkg}
	f.setVersion(csv.Spec.Version.String())
	crds, services := csv.Spec.CustomResourceDefinitions, csv.Spec.APIServiceDefinitions
	for _, crd := range crds.Owned {
		f.apis = append(f.apis, crdAPI(crd))
	}
	for _, s := range services.Owned {
		f.apis = append(f.apis, api{s.Group, s.Version, s.Kind})
	}
	for _, crd := range crds.Required {
		f.requireAPI(crdAPI(crd))
	}
	for _, s := range services.Required {
		f.requireAPI(api{s.Group, s.Version, s.Kind})
	}
	return f
}

func (f *facts) requireAPI(a api) {
	p := property.MustBuildGVKRequired(a.Group, a.Version, a.Kind)
	f.properties = append(f.properties, catalog.Property{Type: p.Type, Value: p.Value})
}

func crdAPI(crd operatorsv1alpha1.CRDDescription) api {
	_, group, _ := strings.Cut(crd.Name, ".")
	return api{group, crd.Version, crd.Kind}
}
