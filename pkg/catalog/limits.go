package catalog

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits for one catalog. Every loader enforces them, because catalogs are untrusted input.
const (
	// MaxCatalogBytes bounds the total size of one catalog.
	MaxCatalogBytes = 512 << 20
	// MaxFileBytes bounds the size of one file of a catalog, or one key of a ConfigMap.
	MaxFileBytes = 256 << 20
	// MaxContentBytes bounds the total size of the manifests of one bundle. A worker holds them while it parses them. Those of the
	// corpus have at most 4 MiB.
	MaxContentBytes = 12 << 20
	// MaxManifests bounds the number of manifests of one bundle.
	MaxManifests = 10_000
	// MaxPackages bounds the number of packages in one catalog.
	MaxPackages = 100_000
	// MaxChannels bounds the number of channels in one catalog.
	MaxChannels = 100_000
	// MaxBundles bounds the number of bundles in one catalog, each of which counts for about 5 kB of memory. The largest
	// published catalogs have 7,000 bundles.
	MaxBundles = 100_000
	// MaxEntries bounds the number of channel entries in one catalog, including skips.
	MaxEntries = 1_000_000
	// MaxExcluded bounds the number of names of excluded packages that a Snapshot contains (Snapshot.Excluded).
	MaxExcluded = 1000
	// MaxNameBytes bounds the length of the name of a package, channel or bundle.
	MaxNameBytes = 253
)

// CheckName rejects a name of a package, channel or bundle that is not safe to use as a path element, as a map key or in a
// message: one that is empty, too long, invalid UTF-8, "." or "..", or that contains a slash, a backslash, a space or a
// character that is not printable.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("name is empty")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("name %q... has %d bytes; at most %d are allowed", name[:32], len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not valid UTF-8", name)
	case name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return fmt.Errorf("name %q must not contain a slash or backslash, and must not be . or ..", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }):
		return fmt.Errorf("name %q contains a space or control character", name)
	}
	return nil
}
