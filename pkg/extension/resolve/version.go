package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/remit-olm/remit/pkg/catalog/versions"
)

// maxRange bounds the length of a version range, in bytes. The API allows 64.
const maxRange = 256

// version is a semantic version.
type version struct{ *semver.Version }

func parseVersion(text string) (version, bool) {
	v, err := semver.StrictNewVersion(text)
	return version{v}, err == nil
}

// compare orders versions by precedence. Versions that differ only in their build metadata are ordered by that
// metadata, because it contains the release number when a version is released again.
func (v version) compare(other version) int {
	return cmp.Or(v.Compare(other.Version), compareBuilds(v.Metadata(), other.Metadata()))
}

// compareBuilds compares build metadata as semantic versioning compares pre-releases: identifier by identifier from
// left to right, numbers numerically, and numbers before words. A version without metadata comes first.
func compareBuilds(a, b string) int {
	as, bs := identifiers(a), identifiers(b)
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.ParseUint(as[i], 10, 64)
		y, errY := strconv.ParseUint(bs[i], 10, 64)
		c := cmp.Compare(as[i], bs[i])
		switch {
		case errX == nil && errY == nil:
			c = cmp.Compare(x, y)
		case errX == nil:
			c = -1
		case errY == nil:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(as), len(bs)), cmp.Compare(a, b))
}

func identifiers(build string) []string {
	if build == "" {
		return nil
	}
	return strings.Split(build, ".")
}

// parseRange parses a version range: comparisons separated by spaces or commas, which must all be true, or alternatives
// separated by "||"; "~", "^", hyphens and wildcards are supported. A range includes pre-releases only if it names one.
// The range "" contains all versions.
func parseRange(text string) (func(version) bool, error) {
	if text == "" {
		return func(version) bool { return true }, nil
	}
	if len(text) > maxRange {
		return nil, fmt.Errorf("the version range has %d bytes; at most %d are allowed", len(text), maxRange)
	}
	c, err := semver.NewConstraint(text)
	if err != nil {
		return nil, errors.New("version range " + strconv.Quote(text) + ` is not valid; examples: "1.2.3", ">=1.2.0 <2.0.0", "~1.2", "^1.2.0", "1.x || >=2.1.0"`)
	}
	return func(v version) bool { return c.Check(v.Version) }, nil
}

// inSkipRange reports whether an entry's skipRange contains a version. Catalogs use a different syntax for ranges than
// users; an invalid range contains nothing.
func inSkipRange(text string, v version) bool {
	parsed, err := versions.Parse(v.String())
	if err != nil {
		return false
	}
	contains, err := versions.ParseRange(text)
	return err == nil && contains(parsed)
}
