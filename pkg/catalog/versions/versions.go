// Package versions parses semantic versions and ranges of strangers. The parsed form needs up to 60 times the memory of the
// text, and the evaluation of a range recurses once for each comparison until the stack ends the program, so the length of
// both is limited before they are parsed.
package versions

import (
	"fmt"

	"github.com/blang/semver/v4"
)

const (
	// MaxVersion is the number of bytes that a version may have.
	MaxVersion = 256
	// MaxRange is the number of bytes that a range may have.
	MaxRange = 4 << 10
)

// Parse parses a version. It returns an error if the text is longer than MaxVersion.
func Parse(text string) (semver.Version, error) { return parse(text, semver.Parse) }

// ParseTolerant is like Parse, but also accepts a leading "v" and missing numbers.
func ParseTolerant(text string) (semver.Version, error) { return parse(text, semver.ParseTolerant) }

func parse(text string, with func(string) (semver.Version, error)) (semver.Version, error) {
	if err := Check(text); err != nil {
		return semver.Version{}, err
	}
	return with(text)
}

// Check returns an error if the text is longer than MaxVersion.
func Check(text string) error { return limit("version", text, MaxVersion) }

// CheckRange returns an error if the text is longer than MaxRange.
func CheckRange(text string) error { return limit("version range", text, MaxRange) }

// ParseRange parses a range of versions as catalogs write it. It returns an error if the text is longer than MaxRange.
func ParseRange(text string) (semver.Range, error) {
	if err := CheckRange(text); err != nil {
		return nil, err
	}
	return semver.ParseRange(text)
}

func limit(what, text string, length int) error {
	if len(text) <= length {
		return nil
	}
	return fmt.Errorf("the %s has %d bytes; at most %d are allowed", what, len(text), length)
}
