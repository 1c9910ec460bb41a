package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is a change that breaks one guard.
type Mutant struct {
	// Name describes the broken behavior, in words joined by hyphens.
	Name string
	// Rule is the number of the rule in the security model (docs/ARCHITECTURE.md) that the guard enforces, or 0 if the
	// guard does not belong to the model.
	Rule int
	// File is a path relative to the repository. Old occurs in it exactly once and is replaced with New.
	File, Old, New string
	// Killer is the test that must fail with the mutant.
	Killer Killer
	// Alone means that the guard is in a process without an environment, which cannot select one of several mutants.
	Alone bool
}

// Killer is a test of a package, or a row of the escape suite.
type Killer struct {
	// Package is a path relative to the repository; "" for rows of the escape suite.
	Package string
	// Test is the name of a test function or the number of a row.
	Test string
}

// unit returns a killer that is a test function of a package. If the test starts Remit's programs, they are built
// without the mutant.
func unit(pkg, test string) Killer { return Killer{Package: pkg, Test: test} }

// row returns a killer that is a row of the escape suite. The programs that the row starts are built with the mutant.
func row(number string) Killer { return Killer{Test: number} }

// IsRow reports whether the killer is a row of the escape suite.
func (k Killer) IsRow() bool { return k.Package == "" }

func (k Killer) String() string {
	if k.IsRow() {
		return "escape row " + k.Test
	}
	return k.Package + " " + k.Test
}

// Rules is the number of rules in the security model.
const Rules = 8

// All returns all mutants. Those that unit tests kill come first.
func All() []Mutant {
	all := slices.Concat(enforcer(), noAccount(), hints(), self(), tokens(), deletion(), adoption(), bytes(), text(), cache(), copies(), grants(), excess(), budget(), ports(), catalogs(), words(), samePackage(), scopedCache(), leftToOLM(), extensions(), adopt(), policies(), prechecks(), optIn(), handMade(), remover(), leftovers(), decoding(), texts(), authors(), targets(), narrow(), unhooked(), conversions(), gifts(), views(), refusals(), unfinished(), sealed(), turnsOfRoles(), holders(), pulls(), ending(), groupLabels(), levels(), unchanged(), rooms(), roomAtStart(), noise(), aggregated())
	slices.SortStableFunc(all, func(a, b Mutant) int {
		switch {
		case a.Killer.IsRow() == b.Killer.IsRow():
			return 0
		case b.Killer.IsRow():
			return -1
		}
		return 1
	})
	return all
}

// Apply returns the file's text with the guard broken. It returns an error if Old does not occur exactly once: if you
// move a guard, update its mutant.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, fmt.Errorf("mutant %s does not apply: its text occurs %d times in %s instead of once", m.Name, n, m.File)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}
