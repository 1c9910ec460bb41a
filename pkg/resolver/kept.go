package resolver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/step"
)

const (
	// maxContent bounds the uncompressed size of the manifests that are kept with a plan.
	maxContent = catalog.MaxContentBytes
	// maxLengths bounds the encoded list of manifest lengths, in bytes.
	maxLengths = 1 << 20
	// minWindow and maxWindow bound the compression window, which determines the memory that compression uses.
	minWindow, maxWindow = 1 << 20, 8 << 20
)

var (
	// ErrNotKept means that an InstallPlan does not contain the manifests of its bundles.
	ErrNotKept = errors.New("the InstallPlan does not contain the manifests of its bundles")
	// ErrForged means that the content in an InstallPlan differs from the content that its name commits to.
	ErrForged = errors.New("the stored content does not match the name of the InstallPlan: the InstallPlan was edited")
)

// Keep returns the pinned content of a plan as text, from which [Plan.Restore] reads it back. The text needs no
// protection against changes, because the plan's name commits to the digest of the manifests. Keep returns "" if the
// manifests do not fit into limit bytes of text. Like StepsOf, it returns ErrContent if the content is not available.
func (in Input) Keep(ctx context.Context, plan Plan, limit int) (string, error) {
	contents, total := make([]*catalog.Content, 0, len(plan.Pins)), 0
	for _, pin := range plan.Pins {
		content, err := in.content(ctx, pin)
		if err != nil {
			return "", err
		}
		for _, m := range content.Manifests {
			total += len(m)
		}
		if total > maxContent {
			return "", nil
		}
		contents = append(contents, content)
	}
	return Pack(contents, limit)
}

// Pack returns contents as text, from which [Unpack] reads them back, or "" if they do not fit into limit bytes of text.
func Pack(contents []*catalog.Content, limit int) (string, error) {
	lengths := make([][]int, 0, len(contents))
	var manifests [][]byte
	total := 0
	for _, content := range contents {
		var of []int
		for _, m := range content.Manifests {
			if total += len(m); total > maxContent {
				return "", nil
			}
			of = append(of, len(m))
		}
		lengths, manifests = append(lengths, of), append(manifests, content.Manifests...)
	}
	head, _ := json.Marshal(lengths) // cannot fail for integers
	if len(head) > maxLengths {
		return "", nil
	}
	parts := slices.Concat([][]byte{head, []byte("\n")}, manifests)
	// Most content fits easily. Better compression takes nine times as long and ten times as much memory, so it is used
	// only for content that does not fit.
	text, err := compress(zstd.SpeedFastest, limit, len(head)+1+total, parts)
	if errors.Is(err, errFull) {
		text, err = compress(zstd.SpeedBetterCompression, limit, len(head)+1+total, parts)
	}
	if errors.Is(err, errFull) || len(text) > limit {
		return "", nil
	}
	return text, err
}

// errFull reports that a text exceeds its limit.
var errFull = errors.New("the text exceeds the size limit")

// bounded is a buffer for a limited number of bytes.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// compress returns the parts as compressed text. It fails with errFull as soon as the text is longer than limit, so
// that incompressible content does not use memory in proportion to its size. size is the total size of the parts.
func compress(level zstd.EncoderLevel, limit, size int, parts [][]byte) (string, error) {
	packed := &bounded{limit: base64.StdEncoding.DecodedLen(limit)}
	window := min(max(1<<bits.Len(uint(size)), minWindow), maxWindow)
	encoder, err := zstd.NewWriter(packed, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(level),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return "", fmt.Errorf("compress content: %w", err)
	}
	for _, part := range parts {
		if _, err = encoder.Write(part); err != nil {
			break
		}
	}
	if err := cmp.Or(err, encoder.Close()); err != nil {
		return "", fmt.Errorf("compress content: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

func decompress(text string) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxContent+maxLengths), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(packed, nil)
}

// Restore decodes the text from Keep into the content of each pin. It returns ErrNotKept for an empty text, and
// ErrForged for content that differs from the content that the pins, and therefore the plan's name, commit to.
func (p Plan) Restore(text string) ([]*catalog.Content, error) {
	if text == "" {
		return nil, ErrNotKept
	}
	contents, err := Unpack(text, len(p.Pins))
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrForged, err)
	}
	for i, content := range contents {
		if content.Digest() != p.Pins[i].Digest {
			return nil, ErrForged
		}
	}
	return contents, nil
}

// errLengths reports that a text does not have the form of Pack.
var errLengths = errors.New("the lengths of the manifests are wrong")

// Unpack decodes the text from Pack into n contents. The caller must compare their digests: the text proves nothing.
func Unpack(text string, n int) ([]*catalog.Content, error) {
	data, err := decompress(text)
	if err != nil {
		return nil, err
	}
	head, rest, _ := bytes.Cut(data, []byte("\n"))
	var lengths [][]int
	if len(head) > maxLengths || json.Unmarshal(head, &lengths) != nil || len(lengths) != n {
		return nil, errLengths
	}
	out := make([]*catalog.Content, 0, n)
	for _, sizes := range lengths {
		content := &catalog.Content{}
		for _, n := range sizes {
			if n < 0 || n > len(rest) {
				return nil, errLengths
			}
			content.Manifests = append(content.Manifests, rest[:n:n])
			rest = rest[n:]
		}
		out = append(out, content)
	}
	return out, nil
}

// StepsFrom computes the steps of a plan from the content of its pins, like StepsOf. in.Catalogs may be nil; the steps
// then do not contain properties that only a catalog declares.
func StepsFrom(ctx context.Context, in Input, plan Plan, contents []*catalog.Content) ([]step.Step, error) {
	if len(contents) != len(plan.Pins) {
		return nil, ErrNotKept
	}
	var steps []step.Step
	left := cmp.Or(in.MaxCost, MaxPlanCost)
	for i, pin := range plan.Pins {
		if contents[i].Digest() != pin.Digest { //nolint:gosec // both have the same length
			return nil, ErrForged
		}
		more, err := in.steps(ctx, pin, contents[i], &left) //nolint:gosec // both have the same length
		if err != nil {
			return nil, err
		}
		steps = append(steps, more.Steps...)
	}
	return steps, nil
}
