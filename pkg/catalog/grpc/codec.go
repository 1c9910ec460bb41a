package grpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the wrapped codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// MaxMessageFields bounds the number of fields in one message: an empty field is two bytes long, but uses a hundred
// bytes of memory when decoded.
const MaxMessageFields = 100_000

// codec wraps gRPC's codec and refuses messages with too many fields before decoding them.
type codec struct {
	encoding.CodecV2
	// received is called with the length of each message.
	received func(n int)
}

func newCodec(received func(n int)) codec { return codec{encoding.GetCodecV2("proto"), received} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	c.received(whole.Len())
	if err := checkFields(whole.ReadOnlyData()); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// checkFields returns an error if a message has too many top-level fields. In the messages of the Registry API, only
// top-level fields can be repeated.
func checkFields(message []byte) error {
	for n := 1; len(message) > 0; n++ {
		if n > MaxMessageFields {
			return fmt.Errorf("the registry sent a message with more than %d fields", MaxMessageFields)
		}
		_, _, length := protowire.ConsumeField(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
	}
	return nil
}
