package echo

import (
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

// The API that the server serves.
const (
	Group    = "echo.sample.remit.dev"
	Version  = "v1"
	Resource = "echoes"
	Kind     = "Echo"

	groupVersion = Group + "/" + Version
	root         = "/apis/" + groupVersion
)

// Echo contains the message of a Greeting in upper case.
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Text string `json:"text"`
}

// List is a list of Echoes.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Echo `json:"items"`
}

// Server is the API server. All fields are required.
type Server struct {
	// Client creates SubjectAccessReviews.
	Client client.Client
	// Reader reads the authentication configuration and Greetings without a cache.
	Reader client.Reader
}

// Handler serves the API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	discover := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if _, err := s.proxied(r); err != nil {
				fail(w, apierrors.NewUnauthorized(err.Error()))
				return
			}
			reply(w, http.StatusOK, body)
		})
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	discover("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}})
	discover("/apis/"+Group, group)
	discover(root, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion,
		APIResources: []metav1.APIResource{{Name: Resource, SingularName: "echo", Namespaced: true, Kind: Kind, Verbs: []string{"get", "list"}}},
	})
	mux.HandleFunc("GET "+root+"/"+Resource, s.list)
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/"+Resource, s.list)
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/"+Resource+"/{name}", s.get)
	return mux
}

// allow reports whether the user may send the request. If not, it writes the response.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, verb string) bool {
	u, err := s.proxied(r)
	if err != nil {
		fail(w, apierrors.NewUnauthorized(err.Error()))
		return false
	}
	ok, err := s.may(r.Context(), u, verb, r.PathValue("namespace"), r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return false
	}
	if !ok {
		fail(w, apierrors.NewForbidden(schema.GroupResource{Group: Group, Resource: Resource}, r.PathValue("name"), nil))
	}
	return ok
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if !s.allow(w, r, "list") {
		return
	}
	greetings := &samplev1.GreetingList{}
	if err := s.Reader.List(r.Context(), greetings, client.InNamespace(r.PathValue("namespace"))); err != nil {
		fail(w, err)
		return
	}
	out := List{TypeMeta: metav1.TypeMeta{APIVersion: groupVersion, Kind: Kind + "List"}, Items: []Echo{}}
	for i := range greetings.Items {
		out.Items = append(out.Items, echoOf(&greetings.Items[i]))
	}
	reply(w, http.StatusOK, out)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	if !s.allow(w, r, "get") {
		return
	}
	greeting := &samplev1.Greeting{}
	if err := s.Reader.Get(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}, greeting); err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, echoOf(greeting))
}

func echoOf(g *samplev1.Greeting) Echo {
	return Echo{
		TypeMeta:   metav1.TypeMeta{APIVersion: groupVersion, Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name, CreationTimestamp: g.CreationTimestamp, UID: g.UID},
		Text:       strings.ToUpper(g.Spec.Message),
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Ignore the error: callers that do not receive the response retry.
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	if known, ok := err.(apierrors.APIStatus); ok {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	reply(w, int(status.Code), status)
}
