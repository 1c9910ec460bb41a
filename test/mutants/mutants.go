package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one guard, broken.
type Mutant struct {
	// Name says what no longer holds, in words that make a pattern: a-b-c.
	Name string
	// Rule is the number of the rule of the security model that the guard is for.
	Rule int
	// File is relative to the repository. Old stands in it once, and New takes its place.
	File, Old, New string
	// Killer is what has to fail.
	Killer Killer
}

// Killer is a test of a package, or rows of the escape suite.
type Killer struct {
	// Package is relative to the repository; "" for rows of the escape suite.
	Package string
	// Test is the name of a test function, or of the row.
	Test string
}

// unit is a test function of a package; programs of Remit that it starts are without the mutant.
func unit(pkg, test string) Killer { return Killer{Package: pkg, Test: test} }

// row is one of the escape suite; its programs have the mutant.
func row(number string) Killer { return Killer{Test: number} }

// IsRow says whether it takes the escape suite.
func (k Killer) IsRow() bool { return k.Package == "" }

func (k Killer) String() string {
	if k.IsRow() {
		return "escape row " + k.Test
	}
	return k.Package + " " + k.Test
}

// Rules is how many the security model has.
const Rules = 8

// All are all mutants, those first that unit tests kill.
func All() []Mutant {
	all := slices.Concat(enforcer(), noAccount(), hints(), self(), tokens(), deletion(), adoption(), bytes())
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

// Apply is the file's text with the guard broken. The error says that the text to replace is not there once: whoever moved
// it has to move the mutant, too.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, fmt.Errorf("mutant %s does not apply: its text is %d times in %s, and has to be once", m.Name, n, m.File)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}
