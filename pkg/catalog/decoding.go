package catalog

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// What decoding takes for each byte and for each value of a document, measured: two bytes of "[]," are a value, too.
const (
	jsonBytes, jsonValue = 4, 128
	yamlBytes, yamlValue = 16, 320
)

// DecodingLimits bound what is decoded of one catalog.
type DecodingLimits struct {
	// JSONBytes and YAMLBytes bound one document. YAML is the expensive one.
	JSONBytes, YAMLBytes int64
	// AllYAMLBytes bounds all YAML of a catalog.
	AllYAMLBytes int64
	// Cost bounds what decoding one document takes in memory, estimated.
	Cost int64
	// Kept bounds what stays in memory of the catalog, estimated; manifests aside.
	Kept int64
}

// GlobalDecoding are the limits for those who speak for the whole cluster, or for themselves at a command line.
func GlobalDecoding() DecodingLimits {
	return DecodingLimits{JSONBytes: 32 << 20, YAMLBytes: 8 << 20, AllYAMLBytes: MaxCatalogBytes, Cost: DecodingMemory, Kept: 128 << 20}
}

// TenantDecoding are those for everybody else.
func TenantDecoding() DecodingLimits {
	return DecodingLimits{JSONBytes: 24 << 20, YAMLBytes: 4 << 20, AllYAMLBytes: 128 << 20, Cost: DecodingMemory / 2, Kept: 64 << 20}
}

// DecodingMemory is what all documents that are decoded at one time may take, estimated.
const DecodingMemory = 256 << 20

// Decoding is shared by all who decode: a document is decoded once there is memory for it, a large one alone. The nil Decoding lets
// all begin at once.
type Decoding struct{ memory *semaphore.Weighted }

// NewDecoding makes one of DecodingMemory.
func NewDecoding() *Decoding { return &Decoding{memory: semaphore.NewWeighted(DecodingMemory)} }

// Begin waits until there is memory; end gives it back.
func (d *Decoding) Begin(ctx context.Context, cost int64) (end func(), err error) {
	if d == nil {
		return func() {}, nil
	}
	cost = min(cost, DecodingMemory)
	if err := d.memory.Acquire(ctx, cost); err != nil {
		return nil, err
	}
	return func() { d.memory.Release(cost) }, nil
}

// JSONCost estimates what decoding a JSON text takes in memory.
func JSONCost(text []byte) int64 {
	return jsonBytes*int64(len(text)) + jsonValue*count(text, ",:[{")
}

// YAMLCost estimates what decoding a YAML text takes in memory.
func YAMLCost(text []byte) int64 {
	return yamlBytes*int64(len(text)) + yamlValue*count(text, ",:[{\n-?")
}

// CheckCost refuses a YAML or JSON text whose decoding would take more than the limit.
func CheckCost(text []byte, limit int64) error {
	cost := YAMLCost(text)
	if cost > limit && isJSON(text) {
		cost = JSONCost(text)
	}
	if cost > limit {
		return fmt.Errorf("it would take about %d MiB of memory to decode, more than the %d that are allowed; JSON takes less than YAML",
			cost>>20, limit>>20)
	}
	return nil
}

// count is how many values a text has at most, by the characters that begin or part them.
func count(text []byte, indicators string) int64 {
	n := 1
	for i := range len(indicators) {
		n += bytes.Count(text, []byte(indicators[i:i+1]))
	}
	return int64(n)
}
