package grpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that this one wraps
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// MaxMessageFields bounds the fields of one message: two bytes of an empty one become a hundred when they are decoded.
const MaxMessageFields = 100_000

// codec is gRPC's own, and refuses messages of too many fields before it decodes them.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if err := checkFields(whole.ReadOnlyData()); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// checkFields counts the fields at the top, which is where those are that may repeat.
func checkFields(message []byte) error {
	for n := 1; len(message) > 0; n++ {
		if n > MaxMessageFields {
			return fmt.Errorf("the registry sends a message of more than %d fields", MaxMessageFields)
		}
		_, _, length := protowire.ConsumeField(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
	}
	return nil
}
