package server

import (
	"context"
	"net/http"
	"time"

	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/remit-olm/remit/pkg/lib/listen"
)

// defaultPace is how quickly clients must read responses that are not watches, so that those who do not read lose their room,
// however many they are. The kube-apiserver itself reads up to 4 MiB ahead of its client.
var defaultPace = listen.Pace{Stall: 10 * time.Second, Rate: 256 << 10, Most: time.Minute}

// answerTimeout bounds the time of any request that is not a watch. It is longer than the timeout of requests, which is a minute,
// and applies to what is not written at a pace: refusals, and answers that come too late.
const answerTimeout = 75 * time.Second

var _ responsewriter.UserProvidedDecorator = &listen.Response{}

// withAnswer returns a handler whose responses end after a timeout, unless the handler sets another deadline.
func withAnswer(h http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout)) // all connections support deadlines
		h.ServeHTTP(w, r)
		// What is still to be written is small, and no longer counts toward the limits for clients.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(defaultPace.Stall))
	})
}

// withPace returns a handler that ends responses that clients do not read at a pace. Watches have maxStall instead.
func withPace(h http.Handler, pace listen.Pace) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWatch(r) {
			h.ServeHTTP(w, r)
			return
		}
		written, end := context.WithCancel(context.WithoutCancel(r.Context()))
		defer end()
		to := pace.Respond(w)
		defer to.End()
		h.ServeHTTP(responsewriter.WrapForHTTP1Or2(to), r.WithContext(context.WithValue(r.Context(), writtenKey{}, written)))
	})
}

type writtenKey struct{}

// untilWritten returns a context that is done when the response of a request has been written. The context of the request can be
// done earlier, for example because of its timeout, while the response still takes memory.
func untilWritten(ctx context.Context) context.Context {
	if written, ok := ctx.Value(writtenKey{}).(context.Context); ok {
		return written
	}
	return ctx // the request is not served over HTTP
}

func isWatch(r *http.Request) bool {
	info, ok := genericrequest.RequestInfoFrom(r.Context())
	return ok && info.Verb == "watch"
}
