package decoding

import (
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"

	"github.com/remit-olm/remit/pkg/lib/group"
)

// Tolerant returns a wrapper for the transport of a client that reads OLM's and Remit's kinds as the types of the scheme. With
// it, an object that cannot be decoded lacks the fields that cannot be, and is marked with names.AnnotationUndecodable if
// these are not only in its status. The client must not replace such an object with an update.
func Tolerant(scheme *runtime.Scheme) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return tolerant{next, repairer{scheme}} }
}

type tolerant struct {
	http.RoundTripper

	repairer repairer
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t tolerant) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t tolerant) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	form := formOf(r)
	if err != nil || form == nil || resp.StatusCode/100 != 2 || !isJSON(resp.Header.Get("Content-Type")) {
		return resp, err
	}
	resp.Body = newReader(resp.Body, t.repairer, form)
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// formOf returns how the response to a request contains objects, or nil if it contains none that are repaired.
func formOf(r *http.Request) form {
	// apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]]
	_, path, found := strings.Cut(r.URL.Path, "/apis/") // the server may be below a prefix
	parts := strings.Split(path, "/")
	if !found || len(parts) < 3 || !group.Own(parts[0]) {
		return nil
	}
	parts = parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	switch watch := r.URL.Query().Get("watch"); {
	case r.Method == http.MethodGet && watch != "" && watch != "false" && watch != "0":
		return event
	case r.Method == http.MethodGet && len(parts) == 1:
		return items
	}
	return object
}
