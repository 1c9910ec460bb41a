package grpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// large returns changes that make a bundle use 1 MiB of memory, each in a different way.
func large() map[string]func(*api.Bundle) {
	text := strings.Repeat("x", 1<<20)
	return map[string]func(*api.Bundle){
		"property values": func(b *api.Bundle) {
			b.Properties = append(b.Properties, &api.Property{Type: "x", Value: `"` + text + `"`})
		},
		"property types": func(b *api.Bundle) {
			b.Properties = append(b.Properties, &api.Property{Type: text, Value: "1"})
		},
		"many properties": func(b *api.Bundle) {
			for range 1 << 20 / 64 {
				b.Properties = append(b.Properties, &api.Property{Type: "x", Value: "1"})
			}
		},
		"versions":     func(b *api.Bundle) { b.Version = text },
		"images":       func(b *api.Bundle) { b.BundlePath = text },
		"replaces":     func(b *api.Bundle) { b.Replaces = text },
		"skips":        func(b *api.Bundle) { b.Skips = []string{text} },
		"many skips":   func(b *api.Bundle) { b.Skips = make([]string, 1<<20/64) },
		"ranges":       func(b *api.Bundle) { b.SkipRange = text },
		"deprecations": func(b *api.Bundle) { b.Deprecation = &api.Deprecation{Message: text} },
	}
}

// endless loads 20 large bundles and returns how many of them were sent before the load stopped, and the load's error.
func endless(t *testing.T, room catalog.Kept, enlarge func(*api.Bundle)) (int, error) {
	t.Helper()
	client, sent := NewMockRegistryClient(gomock.NewController(t)), 0
	client.EXPECT().ListBundles(gomock.Any(), gomock.Any()).DoAndReturn(func(_ context.Context, each func(*api.Bundle) error) error {
		for range 20 {
			b := v1("stable")
			b.CsvName = fmt.Sprintf("a.v%d", sent)
			enlarge(b)
			sent++
			if err := each(b); err != nil {
				return err
			}
		}
		return nil
	})
	client.EXPECT().GetPackage(gomock.Any(), "a").Return(nil, errors.New("the stream ended")).AnyTimes()
	_, err := Load(t.Context(), client, room)
	return sent, err
}

func TestLimitsTheMemoryOfBundles(t *testing.T) {
	for name, enlarge := range large() {
		t.Run(name, func(t *testing.T) {
			sent, err := endless(t, catalog.Kept{Max: 8 << 20}, enlarge)
			require.ErrorContains(t, err, "uses more than 8 MiB of memory")
			require.LessOrEqual(t, sent, 8)
		})
	}
}

func TestReservesMemoryBeforeUsingIt(t *testing.T) {
	full, most := errors.New("no memory is left"), int64(0)
	take := func(kept int64) error {
		if most = kept; kept > 4<<20 {
			return full
		}
		return nil
	}
	for name, enlarge := range large() {
		t.Run(name, func(t *testing.T) {
			sent, err := endless(t, catalog.Kept{Take: take}, enlarge)
			require.ErrorIs(t, err, full)
			require.LessOrEqual(t, sent, 4)
			require.Less(t, most, int64(6<<20))
		})
	}
}

func TestLimitsTheMemoryOfPackages(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	for name, in := range map[string]*api.Package{
		"deprecations":             {DefaultChannelName: "stable", Deprecation: &api.Deprecation{Message: text}},
		"deprecations of channels": {DefaultChannelName: "stable", Channels: []*api.Channel{{Name: "stable", Deprecation: &api.Deprecation{Message: text}}}},
		"default channels":         {DefaultChannelName: text},
	} {
		t.Run(name, func(t *testing.T) {
			l, client := newLoader(catalog.Kept{Max: 1 << 20}), NewMockRegistryClient(gomock.NewController(t))
			require.NoError(t, l.add(v1("stable")))
			client.EXPECT().GetPackage(gomock.Any(), "a").Return(in, nil)
			require.ErrorContains(t, l.complete(t.Context(), client, "a"), "uses more than 1 MiB of memory")
		})
	}
}

func TestCountedMemoryMatchesTheSize(t *testing.T) {
	taken := int64(0)
	snap, err := Load(t.Context(), registry(t, v1("stable"), v1("old"), v2()), catalog.Kept{Take: func(kept int64) error { taken = kept; return nil }})
	require.NoError(t, err)
	require.GreaterOrEqual(t, taken, snap.Size())
	require.Less(t, taken, snap.Size()+64<<10)
}
