package layer

import (
	"context"
	"io"
)

// worker reads a layer. It has a turn (Target.Work) from the end of each Read until the next one: while what was received is unpacked,
// but not while the registry sends.
type worker struct {
	io.Reader
	//nolint:containedctx // io.Reader has no parameter for it
	ctx  context.Context
	work func(context.Context) (end func(), err error)
	end  func()
	// failed is the error of work, which says nothing about the image.
	failed error
}

// Read implements io.Reader.
func (w *worker) Read(p []byte) (int, error) {
	w.leave()
	n, err := w.Reader.Read(p)
	if w.work == nil || n == 0 {
		return n, err
	}
	w.end, w.failed = w.work(w.ctx)
	if w.failed != nil {
		return 0, w.failed
	}
	return n, err
}

// leave ends the turn, if any.
func (w *worker) leave() {
	if w.end != nil {
		w.end()
		w.end = nil
	}
}
