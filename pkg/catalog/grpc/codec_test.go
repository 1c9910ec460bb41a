package grpc

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Decoding the messages of this registry would take a hundred times their size in memory.
func TestRefusesMessagesWithManyFields(t *testing.T) {
	for name, enlarge := range map[string]func(*api.Bundle){
		"APIs":       func(b *api.Bundle) { b.ProvidedApis = empty[api.GroupVersionKind](MaxMessageFields) },
		"properties": func(b *api.Bundle) { b.Properties = empty[api.Property](MaxMessageFields) },
		"skips":      func(b *api.Bundle) { b.Skips = make([]string, MaxMessageFields) },
	} {
		t.Run(name, func(t *testing.T) {
			bundle := v1("stable")
			enlarge(bundle)
			target, _ := serve(t, bundle)
			conn, err := NewConn(target)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = Load(t.Context(), conn, catalog.Kept{})
			require.ErrorContains(t, err, "more than 100000 fields")
		})
	}
}

func empty[T any](n int) []*T {
	out := make([]*T, n)
	for i := range out {
		out[i] = new(T)
	}
	return out
}

func TestRefusesManyFieldsBeforeDecoding(t *testing.T) {
	field := protowire.AppendBytes(protowire.AppendTag(nil, 10, protowire.BytesType), nil)
	message := bytes.Repeat(field, MaxMessageBytes/len(field))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := newCodec(func(int) {}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, &api.Bundle{})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "more than 100000 fields")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	require.Error(t, checkFields([]byte{0xff}), "malformed messages are not decoded")
}
