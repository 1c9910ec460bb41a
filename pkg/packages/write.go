package packages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Limits bound the records of one catalog.
type Limits struct {
	// Bytes is the total size beyond which descriptions are omitted. At twice this size, the remaining packages are omitted.
	Bytes int64
	// Packages is the maximum number of packages.
	Packages int
}

// GlobalLimits returns the limits for catalogs in the global catalog namespace.
func GlobalLimits() Limits { return Limits{MaxGlobalBytes, MaxGlobalPackages} }

// TenantLimits returns the limits for all other catalogs.
func TenantLimits() Limits { return Limits{MaxTenantBytes, MaxTenantPackages} }

// HeaderOf returns the header of a catalog.
func HeaderOf(from Source, snap *catalog.Snapshot) Header {
	text, err := json.Marshal(from)
	if err != nil {
		text = nil // not reached: encoding strings, numbers and times does not fail
	}
	sum := sha256.Sum256(append(append(text, '\n'), snap.Digest...))
	return Header{Source: from, Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

// Write writes the packages of a catalog, within the limits. The context limits the time for reading descriptions: after the
// context is done, packages are written without descriptions.
func Write(ctx context.Context, to io.Writer, h Header, snap *catalog.Snapshot, l Limits) (Written, error) {
	counted := &counter{to: to}
	out, err := NewEncoder(counted, h)
	if err != nil {
		return Written{}, err
	}
	written := Written{}
	names := snap.PackageNames()
	for i, name := range names {
		if i == l.Packages || counted.n > 2*l.Bytes {
			written.Omitted = len(names) - i
			break
		}
		displays := snap.Displays
		if counted.n > l.Bytes || ctx.Err() != nil {
			written.IsIncomplete = written.IsIncomplete || displays != nil && counted.n <= l.Bytes
			displays = nil
		}
		record := Describe(ctx, h.Source, snap.Packages[name], displays)
		if displays == nil {
			record = record.Brief()
		}
		written.IsIncomplete = written.IsIncomplete || record.IsIncomplete
		if err := out.Encode(record); err != nil {
			return Written{}, err
		}
	}
	err = out.Close()
	written.Bytes = counted.n
	return written, err
}

// Written describes a catalog that was written.
type Written struct {
	// Bytes is the number of bytes that were written. Omitted is the number of packages that were not written.
	Bytes   int64
	Omitted int
	// IsIncomplete means that descriptions are missing because reading them took too long. They may be readable later.
	IsIncomplete bool
}

// counter counts the bytes that are written.
type counter struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	c.n += int64(len(data))
	return c.to.Write(data)
}
