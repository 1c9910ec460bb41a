package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// Digest returns the digest of the packages as "sha256:<hex>". It depends neither on how a catalog is split into files nor
// on the order within them. content returns the digest of a bundle's manifests, or "" if the catalog does not contain them.
func Digest(packages map[string]*Package, content func(pkg, bundle string) string) string {
	d := digester{sha256.New()}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		d.pkg(packages[name], content)
	}
	return "sha256:" + hex.EncodeToString(d.Sum(nil))
}

type digester struct{ hash.Hash }

// words writes the number of words and each word with its length, so that the encoding is unambiguous.
func (d digester) words(words ...string) {
	fmt.Fprintf(d, "%d\n", len(words))
	for _, w := range words {
		fmt.Fprintf(d, "%d:", len(w))
		_, _ = d.Write([]byte(w)) // a hash never returns an error
	}
}

func (d digester) pkg(p *Package, content func(pkg, bundle string) string) {
	d.words("package", p.Name, p.DefaultChannel, p.Deprecation)
	for _, name := range p.ChannelNames() {
		d.channel(p.Channels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.Bundles)) {
		d.bundle(p.Bundles[name], content(p.Name, name))
	}
}

func (d digester) channel(c *Channel) {
	d.words("channel", c.Name, c.Deprecation)
	for _, name := range slices.Sorted(maps.Keys(c.Entries)) {
		e := c.Entries[name]
		d.words("entry", e.Name, e.Replaces, e.SkipRange)
		d.words(e.Skips...)
	}
}

func (d digester) bundle(b *Bundle, content string) {
	d.words("bundle", b.Name, b.Package, b.Version, b.Image, b.Deprecation, content)
	for _, p := range b.Properties {
		d.words("property", p.Type, string(p.Value))
	}
}
