package grpc

import "golang.org/x/net/http2"

const (
	// headerBytes is the length of the header of an HTTP/2 frame.
	headerBytes = 9
	// maxPadding is the length of the longest padding of a frame, with its length.
	maxPadding = 256
)

// frames finds the frames in what a registry sends on one connection.
type frames struct {
	header [headerBytes]byte
	// have is the number of bytes of the header that were received, and left that of the frame's content that were not.
	have, left int
}

// follow calls each with the length of the content of each DATA frame that begins in received, or a lower bound if the frame is
// padded. It stops when each returns an error.
func (f *frames) follow(received []byte, each func(content int) error) error {
	for len(received) > 0 {
		if skipped := min(f.left, len(received)); skipped > 0 {
			f.left, received = f.left-skipped, received[skipped:]
			continue
		}
		n := copy(f.header[f.have:], received)
		received = received[n:]
		if f.have += n; f.have < headerBytes {
			return nil
		}
		f.have, f.left = 0, int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2])
		if http2.FrameType(f.header[3]) != http2.FrameData {
			continue
		}
		if err := each(f.content()); err != nil {
			return err
		}
	}
	return nil
}

// content returns the length of the content of a DATA frame. gRPC keeps the padding, too, and lets the sender replace it at once.
func (f *frames) content() int {
	if http2.Flags(f.header[4]).Has(http2.FlagDataPadded) {
		return max(0, f.left-maxPadding)
	}
	return f.left
}
