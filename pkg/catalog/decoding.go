package catalog

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Measured memory, in bytes, that decoding needs per byte and per value of a YAML document. Values are counted separately,
// because a value can be as short as "[]".
const yamlBytes, yamlValue = 16, 320

// DecodingLimits limits the decoding of one catalog.
type DecodingLimits struct {
	// JSONBytes and YAMLBytes limit the size of one document. YAML is more expensive to decode.
	JSONBytes, YAMLBytes int64
	// AllYAMLBytes limits the total size of a catalog's YAML.
	AllYAMLBytes int64
	// Cost limits the estimated memory for decoding one document.
	Cost int64
	// Kept limits the estimated memory that the catalog retains, excluding manifests.
	Kept int64
}

// GlobalDecoding returns the limits for global catalogs and for the command line.
func GlobalDecoding() DecodingLimits {
	return DecodingLimits{JSONBytes: 32 << 20, YAMLBytes: 8 << 20, AllYAMLBytes: MaxCatalogBytes, Cost: DecodingMemory, Kept: 128 << 20}
}

// TenantDecoding returns the limits for all other catalogs.
func TenantDecoding() DecodingLimits {
	return DecodingLimits{JSONBytes: 24 << 20, YAMLBytes: 4 << 20, AllYAMLBytes: 128 << 20, Cost: DecodingMemory, Kept: 64 << 20}
}

// DecodingMemory limits the total estimated memory of the documents that are being decoded, in bytes.
const DecodingMemory = 128 << 20

// Documents that need at most smallDocument bytes share smallMemory, in addition to DecodingMemory, so that they do not wait behind
// the large documents of others: a large one takes up to a second to decode, and a catalog can have thousands of small ones.
const smallDocument, smallMemory = 8 << 20, 48 << 20

// AllDecodingMemory limits the total estimated memory of large and small documents.
const AllDecodingMemory = DecodingMemory + smallMemory

// Decoding limits the memory of concurrent decoding: a document waits until there is memory for it, and a large one is
// decoded without other large ones. A nil Decoding never waits.
type Decoding struct{ small, large *semaphore.Weighted }

// NewDecoding returns a Decoding that is limited to DecodingMemory for large documents.
func NewDecoding() *Decoding {
	return &Decoding{small: semaphore.NewWeighted(smallMemory), large: semaphore.NewWeighted(DecodingMemory)}
}

// Begin waits until cost bytes of memory are available, and reserves them. The caller must call end to release them.
func (d *Decoding) Begin(ctx context.Context, cost int64) (end func(), err error) {
	if d == nil {
		return func() {}, nil
	}
	cost = min(cost, DecodingMemory)
	memory := d.large
	if cost <= smallDocument {
		memory = d.small
	}
	if err := memory.Acquire(ctx, cost); err != nil {
		return nil, err
	}
	return func() { memory.Release(cost) }, nil
}

// JSONCost estimates the memory needed to decode a JSON text.
func JSONCost(text []byte) int64 {
	return budget.JSONCost(text)
}

// YAMLCost estimates the memory needed to decode a YAML text.
func YAMLCost(text []byte) int64 {
	return yamlBytes*int64(len(text)) + yamlValue*budget.Count(text, ",:[{\n-?")
}

// CheckCost rejects a YAML or JSON text that would need more memory to decode than the limit.
func CheckCost(text []byte, limit int64) error {
	cost := YAMLCost(text)
	if cost > limit && isJSON(text) {
		cost = JSONCost(text)
	}
	if cost > limit {
		return fmt.Errorf("decoding would need about %d MiB of memory, but at most %d MiB are allowed; JSON needs less memory than YAML",
			cost>>20, limit>>20)
	}
	return nil
}
