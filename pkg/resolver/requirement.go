package resolver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Limits on the requirements of one bundle.
const (
	// MaxRequirements bounds the number of requirements of one bundle.
	MaxRequirements = 1_000
	// maxNesting bounds the nesting depth of an olm.constraint.
	maxNesting = 16
)

// requirement is something that one other operator must provide.
type requirement struct {
	// text completes the sentence "requires an operator ..."; message is the author's own text, if any. Both are one line.
	text    string
	message string
	// key identifies the requirement across bundles. text cannot do so, because authors control parts of it.
	key   string
	match func(*meter, *facts) bool
	// rules counts the CEL rules, and cost is the cost of compiling them.
	rules, cost int
	// pkgs and apis, if set, restrict which operators can match, so an index lookup replaces a search.
	pkgs []string
	apis []api
	// api is set if the requirement is for that kind alone.
	api *api
}

// requirementsOf parses the properties that declare requirements.
func requirementsOf(m *meter, properties []catalog.Property) ([]requirement, error) {
	var out []requirement
	for _, p := range properties {
		if err := m.Spend(1 + len(p.Value)*costOfByte/10); err != nil {
			return nil, err
		}
		more, err := requirementsIn(m, p)
		if err != nil {
			return nil, fmt.Errorf("property %s: %w", p.Type, err)
		}
		identify(p, more)
		if out = append(out, more...); len(out) > MaxRequirements {
			return nil, fmt.Errorf("the bundle has more than %d requirements", MaxRequirements)
		}
	}
	return out, nil
}

// memoryOfNeeds estimates the memory of the requirements that requirementsOf returns, in bytes. Measured, it is more than what they take.
func memoryOfNeeds(properties []catalog.Property) (size int64) {
	for _, p := range properties {
		switch p.Type {
		case property.TypePackageRequired, property.TypeGVKRequired, catalog.TypeLabelRequired, property.TypeConstraint:
			size += budget.JSONCost(p.Value)
		}
	}
	return size
}

// identify sets the keys of a property's requirements, and makes their texts one line. Keys are hashes, and equal messages share their
// memory, because the property's value can be long and is that of all of its requirements.
func identify(p catalog.Property, all []requirement) {
	value := sha256.New()
	_, _ = fmt.Fprintf(value, "%q ", p.Type)
	_, _ = value.Write(p.Value)
	hash := string(value.Sum(nil))
	lines := map[string]string{}
	for i := range all {
		if _, known := lines[all[i].message]; !known {
			lines[all[i].message] = message.OneLine(cutMessage(all[i].message))
		}
		all[i].text, all[i].message = message.OneLine(cutMessage(all[i].text)), lines[all[i].message]
		all[i].key = fmt.Sprintf("%s %d", hash, i)
	}
}

func requirementsIn(m *meter, p catalog.Property) ([]requirement, error) {
	switch p.Type {
	case property.TypePackageRequired:
		return parsed(p, func(v property.PackageRequired) (requirement, error) {
			return packageRequired(v.PackageName, v.VersionRange)
		})
	case property.TypeGVKRequired:
		return parsed(p, func(v api) (requirement, error) { return apiRequired(v), nil })
	case catalog.TypeLabelRequired:
		return parsed(p, func(v label) (requirement, error) { return labelRequired(v.Label), nil })
	case property.TypeConstraint:
		c, err := constraints.Parse(p.Value)
		if err != nil {
			return nil, err
		}
		return constrained(m, c)
	}
	return nil, nil
}

func parsed[T any](p catalog.Property, required func(T) (requirement, error)) ([]requirement, error) {
	var v T
	if err := json.Unmarshal(p.Value, &v); err != nil {
		return nil, err
	}
	r, err := required(v)
	return []requirement{r}, err
}

// label is the value of olm.label and olm.label.required.
type label struct {
	Label string `json:"label"`
}

func packageRequired(pkg, within string) (requirement, error) {
	if _, err := versions.ParseRange(within); err != nil {
		return requirement{}, fmt.Errorf("version range %q: %w", message.Start(within), err)
	}
	return requirement{
		text: fmt.Sprintf("with package: %s and with version in range: %s", pkg, within),
		pkgs: []string{pkg},
		match: func(m *meter, f *facts) bool {
			if f.pkg != pkg || f.version == nil || m.Spend(1+len(within)*costOfByte/10) != nil {
				return false
			}
			// The parsed range needs up to 60 times the memory of the text, so it is not kept.
			inRange, err := versions.ParseRange(within)
			return err == nil && inRange(*f.version)
		},
	}, nil
}

func apiRequired(a api) requirement {
	return requirement{
		text:  fmt.Sprintf("providing an API with group: %s, version: %s, kind: %s", a.Group, a.Version, a.Kind),
		apis:  []api{a},
		api:   &a,
		match: func(m *meter, f *facts) bool { return m.Spend(len(f.apis)/10) == nil && f.provides(a) },
	}
}

func labelRequired(name string) requirement {
	return requirement{
		text: fmt.Sprintf("with label: %s", name),
		match: func(m *meter, f *facts) bool {
			return m.Spend(f.size()*costOfByte/10) == nil && slices.ContainsFunc(f.properties, func(p catalog.Property) bool {
				var v label
				return p.Type == catalog.TypeLabel && json.Unmarshal(p.Value, &v) == nil && v.Label == name
			})
		},
	}
}

// constrained converts an olm.constraint to requirements. The members of "all", "any" and "not" apply to the same
// operator, as in OLM v0. The exception is an "all" that names several packages: no operator belongs to two packages,
// so each member becomes a separate requirement.
func constrained(m *meter, c constraints.Constraint) ([]requirement, error) {
	if c.All == nil || len(packagesNamed(c.All.Constraints)) < 2 {
		r, err := predicate(m, c, 0)
		return []requirement{r}, err
	}
	if len(c.All.Constraints) > MaxRequirements {
		return nil, fmt.Errorf("the bundle has more than %d requirements", MaxRequirements)
	}
	var out []requirement
	for _, member := range c.All.Constraints {
		r, err := predicate(m, member, 1)
		if err != nil {
			return nil, err
		}
		if r.message == "" {
			r.message = c.FailureMessage
		}
		out = append(out, r)
	}
	return out, nil
}

func packagesNamed(members []constraints.Constraint) map[string]bool {
	out := map[string]bool{}
	for _, m := range members {
		if m.Package != nil {
			out[m.Package.PackageName] = true
		}
	}
	return out
}

func predicate(m *meter, c constraints.Constraint, depth int) (requirement, error) {
	r, err := predicateOf(m, c, depth)
	if c.FailureMessage != "" {
		r.message = c.FailureMessage
	}
	return r, err
}

func predicateOf(m *meter, c constraints.Constraint, depth int) (requirement, error) {
	if depth > maxNesting {
		return requirement{}, fmt.Errorf("constraints are nested more than %d levels deep", maxNesting)
	}
	if n := kindsSet(c); n != 1 {
		return requirement{}, fmt.Errorf("a constraint has %d types; exactly one is required", n)
	}
	switch {
	case c.Package != nil:
		return packageRequired(c.Package.PackageName, c.Package.VersionRange)
	case c.GVK != nil:
		return apiRequired(api{c.GVK.Group, c.GVK.Version, c.GVK.Kind}), nil
	case c.Cel != nil:
		return celRequired(m, c.Cel.Rule)
	case c.All != nil:
		return compound(m, "all", c.All.Constraints, depth)
	case c.Any != nil:
		return compound(m, "any", c.Any.Constraints, depth)
	}
	return compound(m, "not", c.Not.Constraints, depth)
}

func kindsSet(c constraints.Constraint) int {
	n := 0
	for _, set := range []bool{c.Package != nil, c.GVK != nil, c.Cel != nil, c.All != nil, c.Any != nil, c.Not != nil} {
		if set {
			n++
		}
	}
	return n
}

func compound(m *meter, word string, members []constraints.Constraint, depth int) (requirement, error) {
	if len(members) == 0 {
		return requirement{}, fmt.Errorf("%q has no constraints", word)
	}
	parts := make([]requirement, 0, len(members))
	texts := make([]string, 0, len(members))
	rules, cost := 0, 0
	for _, member := range members {
		r, err := predicate(m, member, depth+1)
		if err != nil {
			return requirement{}, err
		}
		parts = append(parts, r)
		texts = append(texts, r.text)
		parts[len(parts)-1].text, parts[len(parts)-1].message = "", "" // only the text of the whole is used
		rules, cost = rules+r.rules, cost+r.cost
	}
	if rules > maxRules {
		return requirement{}, fmt.Errorf("a constraint has more than %d CEL rules", maxRules)
	}
	out := compoundOf(word, parts, texts)
	for i := range parts { // only those of the whole are used, and each level of nesting would keep its own
		parts[i].pkgs, parts[i].apis = nil, nil
	}
	out.rules, out.cost = rules, cost
	return out, nil
}

func compoundOf(word string, parts []requirement, texts []string) requirement {
	matches := func(m *meter, f *facts) func(requirement) bool {
		return func(r requirement) bool { return r.match(m, f) }
	}
	switch word {
	case "all":
		out := requirement{text: strings.Join(texts, " and "), match: func(m *meter, f *facts) bool {
			return m.Spend(len(parts)) == nil && !slices.ContainsFunc(parts, func(r requirement) bool { return !r.match(m, f) })
		}}
		narrow(&out, parts)
		return out
	case "any":
		out := requirement{text: "(" + strings.Join(texts, ", or ") + ")", match: func(m *meter, f *facts) bool {
			return m.Spend(len(parts)) == nil && slices.ContainsFunc(parts, matches(m, f))
		}}
		restrictDisjunction(&out, parts)
		return out
	}
	return requirement{text: "that does not match any of: " + strings.Join(texts, ", "), match: func(m *meter, f *facts) bool {
		return m.Spend(len(parts)) == nil && !slices.ContainsFunc(parts, matches(m, f))
	}}
}

// narrow gives a conjunction the pkgs and apis of its first member that has any.
func narrow(out *requirement, parts []requirement) {
	for _, r := range parts {
		if len(r.pkgs)+len(r.apis) > 0 {
			out.pkgs, out.apis = r.pkgs, r.apis
			return
		}
	}
}

// restrictDisjunction gives a disjunction the pkgs and apis of all its members, if each member has any.
func restrictDisjunction(out *requirement, parts []requirement) {
	var pkgs []string
	var apis []api
	for _, r := range parts {
		if len(r.pkgs)+len(r.apis) == 0 {
			return
		}
		pkgs, apis = append(pkgs, r.pkgs...), append(apis, r.apis...)
	}
	out.pkgs, out.apis = pkgs, apis
}
