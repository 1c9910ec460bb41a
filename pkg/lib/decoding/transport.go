package decoding

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"

	"github.com/remit-olm/remit/pkg/lib/group"
)

// Tolerant returns a wrapper for the transport of a client that reads OLM's and Remit's kinds as the types of the scheme. With
// it, an object that cannot be decoded lacks the fields that cannot be, and is marked with names.AnnotationUndecodable if
// these are not only in its status. Objects of other kinds lack only the fields that are nested more than budget.MaxLevels deep. The
// client must not replace such an object with an update.
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
	form, isOwn := formOf(r)
	if err != nil || form == nil || resp.StatusCode/100 != 2 || !isJSON(resp.Header.Get("Content-Type")) {
		return resp, err
	}
	repair := flatten
	if isOwn {
		repair = t.repairer.repair
	}
	resp.Body = newReader(resp.Body, repair, form)
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json"
}

// formOf returns how the response to a request contains objects, or nil if it contains none, and whether they are of OLM's or Remit's kinds.
func formOf(r *http.Request) (_ form, isOwn bool) {
	// apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]], or api/VERSION/...
	parts := strings.Split(r.URL.Path, "/")
	from := slices.IndexFunc(parts, func(part string) bool { return part == "apis" || part == "api" }) // the server may be below a prefix
	if from < 0 {
		return nil, false
	}
	if isCore := parts[from] == "api"; isCore {
		parts[from] = "" // the group without a name
	} else {
		from++
	}
	if parts = parts[from:]; len(parts) < 3 {
		return nil, false
	}
	isOwn, parts = group.Own(parts[0]), parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	switch watch := r.URL.Query().Get("watch"); {
	case r.Method == http.MethodGet && watch != "" && watch != "false" && watch != "0":
		return event, isOwn
	case r.Method == http.MethodGet && len(parts) == 1:
		return items, isOwn
	}
	return object, isOwn
}
