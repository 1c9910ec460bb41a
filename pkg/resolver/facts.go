package resolver

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// typeDeprecated is a property type for which operator-registry has no constant (OLM v0 contract).
const typeDeprecated = "olm.deprecated"

// api is a kind that an operator owns.
type api struct{ Group, Version, Kind string }

func (a api) String() string {
	return message.OneLine(fmt.Sprintf("%s (%s/%s)", a.Kind, a.Group, a.Version))
}

// facts describes what an operator provides and requires. It is read from a bundle of a catalog or from an installed
// version.
type facts struct {
	name    string
	pkg     string
	version *semver.Version
	apis    []api
	// deprecated means that the bundle cannot be newly installed (olm.deprecated).
	deprecated bool
	// excessive means that the bundle owns more than MaxKinds kinds. apis contains only the first of them.
	excessive  bool
	properties []catalog.Property
	// serves reports additional kinds that count as owned. It is set only in the facts of a cluster.
	serves func(api) bool

	// shared means that many namespaces use the facts, so that what is read from them is kept. Otherwise it is kept only for one
	// resolution.
	shared bool

	mu    sync.Mutex
	needs *needs
	// sum is the SHA-256 sum of the note.
	sum *[sha256.Size]byte
}

// needs contains the requirements of an operator, or the error if they cannot be parsed.
type needs struct {
	all []requirement
	err error
	// cost is the cost of reading the needs. Cache hits incur it as well, so that the cost of a resolution does not depend
	// on earlier ones.
	cost int
}

func factsOf(b *catalog.Bundle) *facts {
	f := newFacts(b.Name, b.Package, b.Version)
	f.properties = b.Properties
	f.readProperties()
	return f
}

func newFacts(name, pkg, version string) *facts {
	f := &facts{name: name, pkg: pkg}
	if v, err := versions.Parse(version); err == nil {
		v.Pre, v.Build = slices.Clone(v.Pre), slices.Clone(v.Build) // without spare capacity, because the index keeps it
		f.version = &v
	}
	return f
}

// readProperties extracts the properties that the index contains. Values that cannot be parsed are ignored.
func (f *facts) readProperties() {
	kinds := 0
	for _, p := range f.properties {
		if p.Type == property.TypeGVK {
			kinds++
		}
	}
	owned, seen := make([]api, 0, min(kinds, MaxKinds)), make(map[api]bool, min(kinds, MaxKinds))
	for _, p := range f.properties {
		switch p.Type {
		case property.TypeGVK:
			var a api
			if json.Unmarshal(p.Value, &a) == nil && !seen[a] {
				if len(owned) == MaxKinds {
					f.excessive = true
					continue
				}
				seen[a] = true
				owned = append(owned, a)
			}
		case typeDeprecated:
			f.deprecated = true
		}
	}
	if len(owned) < kinds {
		owned = slices.Clone(owned) // without spare capacity, because the index keeps it
	}
	f.apis = owned
}

// MaxKinds bounds the number of kinds that a bundle owns. The ClusterServiceVersion of a bundle with more would be refused: it lists them
// in two lists. The bundles of the corpus own at most a few hundred.
const MaxKinds = 2 * bundle.MaxOwned

var errKinds = fmt.Errorf("the bundle owns more than %d kinds", MaxKinds)

// maxKept bounds the number of requirements of one operator of a global catalog that are kept, and maxKeptBytes their text. If a hostile
// author declares more, each resolution parses them again, once, and is charged for it.
const maxKept, maxKeptBytes = 100, 64 << 10

// requirements returns what the operator requires of other operators. The error reports the property that cannot be
// parsed, or is the meter's error.
func (f *facts) requirements(m *meter) ([]requirement, error) {
	if f.excessive {
		return nil, cmp.Or(m.Spend(1), errKinds)
	}
	if known := f.knownNeeds(m); known != nil {
		if err := m.Spend(known.cost); err != nil {
			return nil, err
		}
		return known.all, known.err
	}
	if err := m.hold(f); err != nil {
		return nil, err
	}
	before := m.spent
	all, err := requirementsOf(m, f.properties)
	if m.err != nil {
		return nil, m.err
	}
	if err := m.Spend(costOfRequirement * len(all)); err != nil {
		return nil, err
	}
	f.keepNeeds(m, &needs{all, err, m.spent - before})
	return all, err
}

// knownNeeds returns the needs if they were read before, or nil.
func (f *facts) knownNeeds(m *meter) *needs {
	if known := m.needs[f]; known != nil || !f.shared {
		return known
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.needs
}

// keepNeeds keeps the needs for one resolution, in which they count once: a bundle is a version of each of its channels, and each of these
// versions refers to its needs. They are kept for as long as the facts only if these are shared and the needs are few: they take several
// times the memory of the properties, which is all that counts as the memory of a tenant's catalog.
func (f *facts) keepNeeds(m *meter, read *needs) {
	m.needs[f] = read
	if !f.shared || len(read.all) > maxKept || bytesOf(read.all) > maxKeptBytes {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.needs = read
}

func bytesOf(needs []requirement) (bytes int) {
	for _, need := range needs {
		bytes += len(need.text) + len(need.message) + len(need.key)
	}
	return bytes
}

// provides reports whether the operator owns a kind.
func (f *facts) provides(a api) bool {
	return slices.Contains(f.apis, a) || f.serves != nil && f.serves(a)
}

// isNoted reports whether a ClusterServiceVersion records exactly these properties.
func (f *facts) isNoted(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sum == nil {
		sum := sha256.Sum256([]byte(catalog.PropertiesText(f.properties)))
		f.sum = &sum
	}
	return *f.sum == sha256.Sum256([]byte(text))
}

// notedFacts returns the facts recorded in an installed version's annotation, or nil if there are none or they cannot
// be parsed.
func notedFacts(csv *operatorsv1alpha1.ClusterServiceVersion, pkg string) *facts {
	var stated struct {
		Properties []catalog.Property `json:"properties"`
	}
	if text := csv.Annotations[names.AnnotationProperties]; text == "" || json.Unmarshal([]byte(text), &stated) != nil {
		return nil
	}
	return factsOf(&catalog.Bundle{Name: csv.Name, Package: pkg, Version: csv.Spec.Version.String(), Properties: stated.Properties})
}

// costOfReading returns the cost of installedFacts.
func costOfReading(csv *operatorsv1alpha1.ClusterServiceVersion) int {
	crds, services := csv.Spec.CustomResourceDefinitions, csv.Spec.APIServiceDefinitions
	listed := len(crds.Owned) + len(services.Owned) + len(crds.Required) + len(services.Required)
	return len(csv.Annotations[names.AnnotationProperties])*costOfByte/10 + costOfItem*listed
}

// memoryOfReading returns the memory of facts that installedFacts returned, in bytes.
func memoryOfReading(csv *operatorsv1alpha1.ClusterServiceVersion, f *facts) int64 {
	const each = 96 // a kind, or a property, in a list with spare capacity
	size := memoryOfFacts + len(csv.Annotations[names.AnnotationProperties]) + each*(len(f.apis)+len(f.properties))
	for _, p := range f.properties {
		size += len(p.Value)
	}
	return int64(size)
}

// installedFacts returns the facts of an installed version: those recorded in its annotation, or else those that can
// be derived from its ClusterServiceVersion.
func installedFacts(csv *operatorsv1alpha1.ClusterServiceVersion, pkg string) *facts {
	if f := notedFacts(csv, pkg); f != nil {
		return f
	}
	f := newFacts(csv.Name, pkg, csv.Spec.Version.String())
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
