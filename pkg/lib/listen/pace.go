package listen

import (
	"errors"
	"net/http"
	"time"
)

// Pace is how quickly clients must read responses. A client that does not read would otherwise hold the memory and the turn of
// its response as long as it likes. Only the time in which a response waits for its client counts.
type Pace struct {
	// Stall bounds the time for each block of blockBytes.
	Stall time.Duration
	// A response may take Stall, and a second for every Rate bytes that have been sent, but at most Most.
	Rate int
	Most time.Duration
}

// blockBytes is the number of bytes that are written at a time.
const blockBytes = 64 << 10

// left returns the time for the next block of a response, of which some bytes have been sent in the time spent so far.
func (p Pace) left(sent int, spent time.Duration) time.Duration {
	earned := time.Duration(float64(sent) / float64(p.Rate) * float64(time.Second))
	return min(p.Stall, min(p.Stall+earned, p.Most)-spent)
}

// Response ends a response that its client reads more slowly than a Pace allows: writing fails, and the client can tell that the
// response is incomplete. In HTTP/2, only the stream ends, because other users may share the connection. The caller must call End.
type Response struct {
	http.ResponseWriter
	pace    Pace
	control *http.ResponseController
	// sent is the number of bytes that have been written, and spent the time that this took.
	sent  int
	spent time.Duration
	// failed is the first error. Nothing is written after it.
	failed error
}

// Respond returns the response to a request that must be read at this pace.
func (p Pace) Respond(to http.ResponseWriter) *Response {
	return &Response{ResponseWriter: to, pace: p, control: http.NewResponseController(to)}
}

// Unwrap returns the underlying response; http.ResponseController uses it.
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Write implements http.ResponseWriter.
func (r *Response) Write(data []byte) (written int, err error) {
	for first := true; r.failed == nil && (first || written < len(data)); first = false {
		block := data[written:min(written+blockBytes, len(data))]
		r.wait(func() error {
			n, err := r.ResponseWriter.Write(block)
			written += n
			r.sent += n
			return err
		})
	}
	r.pause()
	return written, r.failed
}

// Flush implements http.Flusher.
func (r *Response) Flush() {
	if r.failed == nil {
		r.wait(func() error { return supported(r.control.Flush()) })
		r.pause()
	}
}

// End must be called when the handler returns. It limits the time for what the server has not sent yet.
func (r *Response) End() {
	if r.failed == nil {
		r.until(time.Now().Add(r.pace.left(r.sent, r.spent)))
	}
}

// wait calls a function that waits for the client.
func (r *Response) wait(send func() error) {
	began := time.Now()
	r.until(began.Add(r.pace.left(r.sent, r.spent)))
	if r.failed == nil {
		r.failed = send()
	}
	r.spent += time.Since(began)
}

// pause removes the deadline while the program prepares what it sends next.
func (r *Response) pause() {
	if r.failed == nil {
		r.until(time.Time{})
	}
}

// until sets the deadline.
func (r *Response) until(at time.Time) {
	if err := supported(r.control.SetWriteDeadline(at)); err != nil {
		r.failed = err
	}
}

// supported ignores that a response, such as one in a test, supports no deadlines.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
