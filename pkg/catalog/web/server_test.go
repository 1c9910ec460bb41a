package web

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog/disk"
)

var modified = time.Date(2026, 11, 23, 9, 0, 0, 5, time.UTC)

// object is one object of a catalog.
type object struct{ schema, pkg, name string }

func (o object) line() string {
	return fmt.Sprintf(`{"schema":%q,"package":%q,"name":%q}`, o.schema, o.pkg, o.name)
}

var objects = []object{
	{"olm.package", "", "a"}, {"olm.bundle", "a", "a.v1"}, {"olm.channel", "a", "stable"}, {"olm.package", "", "b"}, {"olm.channel", "b", "stable"},
}

func linesOf(t *testing.T, all ...object) *disk.Lines {
	t.Helper()
	store, err := disk.Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	w, err := store.NewLines(nil)
	require.NoError(t, err)
	defer w.Discard()
	for _, o := range all {
		require.NoError(t, w.Put(o.schema, o.pkg, o.name, []byte(o.line())))
	}
	l, err := store.PutLines("key", w, func(disk.Line) bool { return true })
	require.NoError(t, err)
	return l
}

func joined(all ...object) string {
	out := ""
	for _, o := range all {
		out += o.line() + "\n"
	}
	return out
}

// ask sends a request to a server with the catalog "one".
func ask(t *testing.T, s *Server, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}

func serving(t *testing.T, all ...object) *Server {
	t.Helper()
	s := New("https://catalogs.remit.svc")
	s.Put("one", linesOf(t, all...), modified)
	return s
}

const all, metas = "/catalogs/one/api/v1/all", "/catalogs/one/api/v1/metas"

func TestServesAllObjects(t *testing.T) {
	s := serving(t, objects...)
	require.Equal(t, "https://catalogs.remit.svc/catalogs/one", s.Base("one"))
	got := ask(t, s, "GET", all)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Equal(t, "application/jsonl", got.Header.Get("Content-Type"))
	require.Equal(t, "Mon, 23 Nov 2026 09:00:00 GMT", got.Header.Get("Last-Modified"))
	require.Equal(t, fmt.Sprint(len(joined(objects...))), got.Header.Get("Content-Length"))
	require.Equal(t, joined(objects...), body(t, got))

	head := ask(t, s, "HEAD", all)
	require.Equal(t, got.Header, head.Header)
	require.Empty(t, body(t, head))
	s.Delete("one")
	require.Equal(t, http.StatusNotFound, ask(t, s, "GET", all).StatusCode)
}

func TestFiltersObjects(t *testing.T) {
	s := serving(t, objects...)
	for query, want := range map[string][]object{
		"":                                  objects,
		"?schema=olm.package":               {objects[0], objects[3]},
		"?schema=olm.package&name=b":        {objects[3]},
		"?package=a":                        {objects[1], objects[2]}, // objects of schema olm.package have no field package
		"?schema=olm.channel&name=stable":   {objects[2], objects[4]},
		"?package=b&name=stable":            {objects[4]},
		"?schema=&package=&name=":           objects,
		"?package=unknown":                  nil,
		"?schema=olm.channel&package=a%2Fb": nil,
	} {
		got := ask(t, s, "GET", metas+query)
		require.Equal(t, http.StatusOK, got.StatusCode, query)
		require.Equal(t, joined(want...), body(t, got), query)
	}
}

func TestRefusesOtherRequests(t *testing.T) {
	s := serving(t, objects...)
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{"GET", metas + "?version=1", http.StatusBadRequest},
		{"GET", metas + "?schema=a&schema=b", http.StatusBadRequest},
		{"GET", metas + "?schema=%zz", http.StatusBadRequest},
		{"GET", metas + "?schema=a;name=b", http.StatusBadRequest},
		{"POST", all, http.StatusMethodNotAllowed},
		{"DELETE", metas, http.StatusMethodNotAllowed},
		{"GET", "/catalogs/two/api/v1/all", http.StatusNotFound},
		{"GET", "/catalogs/two/api/v1/metas", http.StatusNotFound},
		{"GET", "/catalogs/one/api/v2/all", http.StatusNotFound},
		{"GET", "/catalogs/one", http.StatusNotFound},
		{"GET", "/", http.StatusNotFound},
	} {
		got := ask(t, s, tc.method, tc.path)
		require.Equal(t, tc.want, got.StatusCode, "%s %s", tc.method, tc.path)
		if tc.want == http.StatusMethodNotAllowed {
			require.Equal(t, "GET, HEAD", got.Header.Get("Allow"))
		}
		require.NotContains(t, body(t, got), "olm.package")
	}
}

func TestUnchangedContentIsNotSentAgain(t *testing.T) {
	s := serving(t, objects...)
	for _, path := range []string{all, metas + "?package=a"} {
		tag := ask(t, s, "GET", path).Header.Get("ETag")
		require.Regexp(t, `^"[0-9a-f.]+"$`, tag)
		for _, header := range [][2]string{
			{"If-None-Match", tag}, {"If-None-Match", "W/" + tag}, {"If-None-Match", `"x", ` + tag}, {"If-None-Match", "*"},
			{"If-Modified-Since", modified.Format(http.TimeFormat)}, {"If-Modified-Since", modified.Add(time.Hour).Format(http.TimeFormat)},
		} {
			got := ask(t, s, "GET", path, header[0], header[1])
			require.Equal(t, http.StatusNotModified, got.StatusCode, "%v", header)
			require.Equal(t, tag, got.Header.Get("ETag"))
			require.Empty(t, body(t, got))
		}
		for _, header := range [][]string{
			{"If-None-Match", `"x"`}, {"If-Modified-Since", modified.Add(-time.Hour).Format(http.TimeFormat)}, {"If-Modified-Since", "yesterday"},
			{"If-None-Match", `"x"`, "If-Modified-Since", modified.Format(http.TimeFormat)},
		} {
			require.Equal(t, http.StatusOK, ask(t, s, "GET", path, header...).StatusCode, "%v", header)
		}
	}
	require.NotEqual(t, ask(t, s, "GET", metas+"?package=a").Header.Get("ETag"), ask(t, s, "GET", metas+"?name=a").Header.Get("ETag"))
	before := ask(t, s, "GET", all).Header.Get("ETag")
	s.Put("one", linesOf(t, objects[:3]...), modified)
	require.Equal(t, http.StatusOK, ask(t, s, "GET", all, "If-None-Match", before).StatusCode)
}

func TestCompressesLongResponses(t *testing.T) {
	long := []object{{"olm.package", "", strings.Repeat("long-", 40)}}
	for n := range 20 {
		long = append(long, object{"olm.bundle", long[0].name, fmt.Sprintf("%02d-%s", n, strings.Repeat("x", 60))})
	}
	s := serving(t, long...)
	plain := ask(t, s, "GET", all)
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", plain.Header.Get("Vary"))
	for accept, want := range map[string]bool{
		"gzip": true, "deflate, gzip;q=0.5": true, "*": true, "GZIP": true,
		"": false, "identity": false, "gzip;q=0": false, "gzip; q=0.0, *": false, "gzip;q=x": false, "br": false,
	} {
		got := ask(t, s, "GET", all, "Accept-Encoding", accept)
		if !want {
			require.Empty(t, got.Header.Get("Content-Encoding"), accept)
			require.Equal(t, joined(long...), body(t, got))
			continue
		}
		require.Equal(t, "gzip", got.Header.Get("Content-Encoding"), accept)
		require.NotEqual(t, plain.Header.Get("ETag"), got.Header.Get("ETag"), "another representation has another tag")
		tag := got.Header.Get("ETag")
		zip, err := gzip.NewReader(got.Body)
		require.NoError(t, err)
		text, err := io.ReadAll(zip)
		require.NoError(t, err)
		require.Equal(t, joined(long...), string(text))
		require.Equal(t, http.StatusNotModified, ask(t, s, "GET", all, "Accept-Encoding", accept, "If-None-Match", tag).StatusCode)
	}
	short := ask(t, s, "GET", metas+"?schema=olm.package", "Accept-Encoding", "gzip")
	require.Empty(t, short.Header.Get("Content-Encoding"), "short responses are not compressed")
}

func TestLimitsConcurrentResponses(t *testing.T) {
	s := serving(t, objects...)
	synctest.Test(t, func(t *testing.T) {
		s.turns = make(chan struct{}, 1)
		end, ok := s.turn(t.Context(), "192.0.2.9:1")
		require.True(t, ok)
		begun := time.Now()
		got := ask(t, s, "GET", all)
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
		require.Equal(t, "10", got.Header.Get("Retry-After"))
		require.Empty(t, got.Header.Get("ETag"))
		require.Equal(t, maxWait, time.Since(begun))
		require.Equal(t, http.StatusServiceUnavailable, ask(t, s, "HEAD", all).StatusCode, "responses without a body read the index as well")
		require.Equal(t, http.StatusServiceUnavailable, ask(t, s, "GET", all, "If-None-Match", "*").StatusCode)
		end()
		require.Equal(t, http.StatusOK, ask(t, s, "GET", all).StatusCode)
		require.Empty(t, s.turns)
	})
}

func TestLimitsConcurrentResponsesPerClient(t *testing.T) {
	s := serving(t, objects...)
	synctest.Test(t, func(t *testing.T) {
		s.turns = make(chan struct{}, maxResponses)
		var ends []func()
		for _, client := range []string{"192.0.2.7", "192.0.2.8"} {
			for range maxResponses {
				go func() {
					if end, ok := s.turn(t.Context(), client+":1"); ok {
						ends = append(ends, end)
					}
				}()
				synctest.Wait()
			}
		}
		require.Len(t, ends, 2*maxShare)
		require.Equal(t, http.StatusOK, ask(t, s, "GET", all).StatusCode, "a third client is served")
		time.Sleep(maxWait)
		synctest.Wait()
		for _, end := range ends {
			end()
		}
		require.Empty(t, s.turns)
		require.Empty(t, s.clients)
	})
}
