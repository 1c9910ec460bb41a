package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/lib/listen"
)

const (
	// maxResponses bounds the number of concurrent responses, and maxShare those to one client address. maxWait bounds how
	// long a request waits for its turn.
	maxResponses, maxShare, maxWait = 32, 8, 10 * time.Second
	// minCompressed is the length above which responses are compressed.
	minCompressed = 1400
	// chunkBytes is the number of bytes that are copied at a time.
	chunkBytes = 128 << 10
	// A client must read a block within stallTimeout, minRate bytes per second, and the whole response within responseTimeout.
	stallTimeout, minRate, responseTimeout = 30 * time.Second, 32 << 10, 5 * time.Minute

	contentType = "application/jsonl"
)

// Server serves the content of catalogs. It implements http.Handler.
type Server struct {
	root string
	mux  *http.ServeMux
	// turns contains an element for each response that is being written.
	turns chan struct{}
	// pace bounds the time for writing a response.
	pace listen.Pace

	mu       sync.RWMutex
	catalogs map[string]content

	sharing sync.Mutex
	// clients contains the addresses of the clients that have, or wait for, a turn.
	clients map[string]*share
}

type content struct {
	lines    *disk.Lines
	modified time.Time
}

// New returns a server without catalogs. root is the URL at which clients reach it, without a path.
func New(root string) *Server {
	s := &Server{root: root, mux: http.NewServeMux(), turns: make(chan struct{}, maxResponses), catalogs: map[string]content{}, clients: map[string]*share{},
		pace: listen.Pace{Stall: stallTimeout, Rate: minRate, Most: responseTimeout}}
	s.mux.HandleFunc("GET /catalogs/{catalog}/api/v1/all", s.all)
	s.mux.HandleFunc("GET /catalogs/{catalog}/api/v1/metas", s.metas)
	return s
}

// Base returns the URL of a catalog, to which clients append a path such as "api/v1/all".
func (s *Server) Base(catalog string) string { return s.root + "/catalogs/" + catalog }

// Put serves the objects of a catalog. modified is when the catalog was read.
func (s *Server) Put(catalog string, lines *disk.Lines, modified time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalogs[catalog] = content{lines, modified.UTC().Truncate(time.Second)}
}

// Delete stops serving a catalog.
func (s *Server) Delete(catalog string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.catalogs, catalog)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) of(r *http.Request) (content, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.catalogs[r.PathValue("catalog")]
	return c, ok
}

func (s *Server) all(w http.ResponseWriter, r *http.Request) {
	c, ok := s.of(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.respond(w, r, response{content: c, tag: c.lines.Digest()})
}

// query is a filter for objects. Empty fields match everything.
type query struct{ schema, pkg, name string }

// queryOf returns the filter in a URL, or an error for unknown or repeated parameters.
func queryOf(u *url.URL) (q query, err error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return q, errors.New("the query is malformed")
	}
	fields := map[string]*string{"schema": &q.schema, "package": &q.pkg, "name": &q.name}
	for parameter, all := range values {
		field, ok := fields[parameter]
		if !ok || len(all) != 1 {
			return q, errors.New("the query can contain only the parameters schema, package and name, each once")
		}
		*field = all[0]
	}
	return q, nil
}

func (q query) matches(l disk.Line) bool {
	return (q.schema == "" || q.schema == l.Schema) && (q.pkg == "" || q.pkg == l.Package) && (q.name == "" || q.name == l.Name)
}

// tag returns a short hash of the filter.
func (q query) tag() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{q.schema, q.pkg, q.name}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func (s *Server) metas(w http.ResponseWriter, r *http.Request) {
	c, ok := s.of(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	q, err := queryOf(r.URL)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.respond(w, r, response{content: c, query: q, tag: c.lines.Digest() + "." + q.tag()})
}

// response contains the lines that match the query. tag is a hash that identifies them.
type response struct {
	content
	query
	tag string
}

// matching iterates over the lines. It does not collect them, so that requests use little memory.
func (o response) matching() iter.Seq[disk.Line] {
	return func(yield func(disk.Line) bool) {
		for _, l := range o.lines.All() {
			if o.matches(l) && !yield(l) {
				return
			}
		}
	}
}

func (o response) length() (n int64) {
	for l := range o.matching() {
		n += l.Length()
	}
	return n
}

// respond waits for a turn first, because even a response without a body, to HEAD or for unchanged content, reads the index of all lines.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, o response) {
	header := w.Header()
	end, ok := s.turn(r.Context(), r.RemoteAddr)
	if !ok {
		header.Set("Retry-After", strconv.Itoa(int(maxWait.Seconds())))
		http.Error(w, "too many concurrent requests; try again later", http.StatusServiceUnavailable)
		return
	}
	defer end()
	length := o.length()
	compress := length > minCompressed && acceptsGzip(r.Header)
	header.Set("Content-Type", contentType)
	header.Set("Vary", "Accept-Encoding")
	header.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	if compress {
		o.tag += ".gzip" // each representation has its own ETag
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("ETag", `"`+o.tag+`"`)
	if isUnchanged(r.Header, header.Get("ETag"), o.modified) {
		header.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !compress {
		header.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	if r.Method == http.MethodHead {
		return
	}
	to := s.pace.Respond(w)
	defer to.End()
	if err := o.write(to, compress); err != nil {
		panic(http.ErrAbortHandler) // so that the client notices that the response is incomplete
	}
}

// write copies the lines. It fails if the client reads too slowly.
func (o response) write(to io.Writer, compress bool) error {
	if !compress {
		return o.copy(to)
	}
	zip, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err == nil {
		err = o.copy(zip)
	}
	if err != nil {
		return err
	}
	return zip.Close()
}

func (o response) copy(to io.Writer) error {
	buffer := make([]byte, chunkBytes)
	for l := range o.matching() {
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, o.lines.Open(l), buffer); err != nil {
			return err
		}
	}
	return nil
}

// isUnchanged reports whether the client already has this representation.
func isUnchanged(request http.Header, tag string, modified time.Time) bool {
	if known := request.Values("If-None-Match"); len(known) > 0 {
		return slices.ContainsFunc(strings.Split(strings.Join(known, ","), ","), func(one string) bool {
			one = strings.TrimSpace(one)
			return one == "*" || strings.TrimPrefix(one, "W/") == tag
		})
	}
	since, err := http.ParseTime(request.Get("If-Modified-Since"))
	return err == nil && !modified.After(since)
}

// acceptsGzip reports whether a client accepts compressed responses.
func acceptsGzip(request http.Header) bool {
	for _, one := range strings.Split(strings.Join(request.Values("Accept-Encoding"), ","), ",") {
		name, parameters, _ := strings.Cut(one, ";")
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "gzip") && name != "*" {
			continue
		}
		weight, has := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !has || err == nil && q > 0
	}
	return false
}
