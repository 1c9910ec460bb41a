package resolver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/step"
)

const (
	// maxContent bounds the manifests of a plan that are kept with it, in bytes before they are compressed.
	maxContent = 16 << 20
	// maxLengths bounds what the kept text says about them.
	maxLengths = 1 << 20
	// minWindow and maxWindow bound how far back the compression looks for repetitions, and so the memory that it takes.
	minWindow, maxWindow = 1 << 20, 8 << 20
)

var (
	// ErrNotKept reports that an InstallPlan carries no content.
	ErrNotKept = errors.New("it does not carry its content")
	// ErrForged reports that the content that an InstallPlan carries is not the content that its name commits to.
	ErrForged = errors.New("the content that it carries does not match its name: it was edited")
)

// Keep returns the pinned content of a plan as text, from which [Plan.Restore] reads it back. The text proves itself: it has the
// manifests as the catalog has them, and the plan's name commits to their digest. Keep returns "" if they do not fit into limit
// bytes of text, and fails with ErrContent as StepsOf does.
func (in Input) Keep(ctx context.Context, plan Plan, limit int) (string, error) {
	lengths := make([][]int, 0, len(plan.Pins))
	var all bytes.Buffer
	for _, pin := range plan.Pins {
		content, err := in.content(ctx, pin)
		if err != nil {
			return "", err
		}
		var of []int
		for _, m := range content.Manifests {
			if all.Len()+len(m) > maxContent {
				return "", nil
			}
			of = append(of, len(m))
			all.Write(m)
		}
		lengths = append(lengths, of)
	}
	head, err := json.Marshal(lengths)
	if err != nil {
		return "", fmt.Errorf("encode content: %w", err)
	}
	if len(head) > maxLengths {
		return "", nil
	}
	text, err := compress(append(append(head, '\n'), all.Bytes()...))
	if err != nil || len(text) > limit {
		return "", err
	}
	return text, nil
}

func compress(data []byte) (string, error) {
	window := min(max(1<<bits.Len(uint(len(data))), minWindow), maxWindow)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return "", fmt.Errorf("compress content: %w", err)
	}
	packed := encoder.EncodeAll(data, nil)
	if err := encoder.Close(); err != nil {
		return "", fmt.Errorf("compress content: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed), nil
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

// Restore reads what Keep returned: the content of each pin. It fails with ErrNotKept for an empty text, and with ErrForged for any
// content but the one that the plan's pins, and so its name, commit to.
func (p Plan) Restore(text string) ([]*catalog.Content, error) {
	if text == "" {
		return nil, ErrNotKept
	}
	data, err := decompress(text)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrForged, err)
	}
	head, rest, _ := bytes.Cut(data, []byte("\n"))
	var lengths [][]int
	if len(head) > maxLengths || json.Unmarshal(head, &lengths) != nil || len(lengths) != len(p.Pins) {
		return nil, ErrForged
	}
	out := make([]*catalog.Content, 0, len(p.Pins))
	for i, of := range lengths {
		content := &catalog.Content{}
		for _, n := range of {
			if n < 0 || n > len(rest) {
				return nil, ErrForged
			}
			content.Manifests = append(content.Manifests, rest[:n:n])
			rest = rest[n:]
		}
		if content.Digest() != p.Pins[i].Digest {
			return nil, ErrForged
		}
		out = append(out, content)
	}
	return out, nil
}

// StepsFrom makes the steps of a plan from the content of its pins, as StepsOf does. Of the input it needs the namespace, the
// account, the group and the listers. What only a catalog states of a bundle, its properties, is in no step.
func StepsFrom(in Input, plan Plan, contents []*catalog.Content) ([]step.Step, error) {
	if len(contents) != len(plan.Pins) {
		return nil, ErrNotKept
	}
	var steps []step.Step
	for i, pin := range plan.Pins {
		if contents[i].Digest() != pin.Digest {
			return nil, ErrForged
		}
		more, err := in.steps(pin, contents[i])
		if err != nil {
			return nil, err
		}
		steps = append(steps, more.Steps...)
	}
	return steps, nil
}
