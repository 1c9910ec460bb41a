package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	genericserver "k8s.io/apiserver/pkg/server"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// metadata implements catalog.DisplayReader. It is the value of olm.csv.metadata in all bundles.
type metadata string

// PackageDisplay implements catalog.DisplayReader.
func (metadata) PackageDisplay(context.Context, string) ([]byte, error) { return nil, nil }

// BundleDisplay implements catalog.DisplayReader.
func (m metadata) BundleDisplay(context.Context, string, string, string) ([]byte, error) {
	return []byte(m), nil
}

// describedBy returns the record that the catalog program sends for a package whose only bundle has the metadata.
func describedBy(t *testing.T, m metadata) packages.Record {
	t.Helper()
	entries := map[string]catalog.Entry{"v1": {Name: "v1"}}
	return packages.Describe(t.Context(), packages.Source{Namespace: global, Name: "c"}, &catalog.Package{
		Name: "p", DefaultChannel: "stable",
		Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: entries}},
		Bundles:  map[string]*catalog.Bundle{"v1": {Name: "v1", Version: "1.0.0"}},
	}, m)
}

// empty returns a JSON list with n entries.
func empty(entry string, n int) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }

// stored stores a global catalog with n packages that differ only in their names.
func (m *manifests) stored(t *testing.T, r packages.Record, n int) {
	t.Helper()
	var body bytes.Buffer
	e, err := packages.NewEncoder(&body, packages.Header{Source: packages.Source{Namespace: global, Name: "c", UID: types.UID(fmt.Sprint(n))}})
	require.NoError(t, err)
	for i := range n {
		r.Manifest.Name = fmt.Sprintf("p%05d", i)
		require.NoError(t, e.Encode(r))
	}
	require.NoError(t, e.Close())
	require.NoError(t, m.store.Put(types.NamespacedName{Namespace: global, Name: "c"}, &body))
}

// direct returns the storage of a server without the server.
func direct(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{store: store.New(store.Options{Directory: t.TempDir(), GlobalNamespace: global}), room: newRoom()}
	m.store.SetComplete()
	return m
}

// A list of {} needs three bytes per entry in a record, and tens or hundreds when it is decoded.
func TestAListNeedsTheMemoryThatItTakesInTheRoom(t *testing.T) {
	for name, described := range map[string]metadata{
		"the most that is parsed":    metadata(`{"maintainers":` + empty("{}", 249_000) + `}`),
		"the most that is described": metadata(`{"maintainers":` + empty("{}", 125_000) + `}`),
		"large structs":              metadata(`{"crdDescriptions":{"owned":` + empty("{}", 20_000) + `}}`),
		"lists of lists":             metadata(`{"crdDescriptions":{"owned":` + empty(`{"statusDescriptors":[{"x-descriptors":["a"]}]}`, 5_000) + `}}`),
		"short texts":                metadata(`{"keywords":` + empty(`"abcdefghijklmnopq"`, 40_000) + `}`),
		"text":                       metadata(`{"description":"` + strings.Repeat("x", 1_000_000) + `"}`),
	} {
		t.Run(name, func(t *testing.T) {
			r, m := describedBy(t, described), direct(t)
			for _, row := range []struct {
				packages    int
				limit, most int64
			}{{8, 0, maxListBytes}, {8, 500, maxPageBytes}, {89, 0, maxListBytes}} {
				m.stored(t, r, row.packages)
				ctx, end := request(t, "u")
				o := &metainternalversion.ListOptions{Limit: row.limit}
				entries, now := m.store.List(store.View{})
				p, err := page(o, selection{}, entries, now)
				cost := p.size
				clear(entries)
				p = paged{}
				before := heap()
				list, listErr := m.List(genericrequest.WithNamespace(ctx, "n"), o)
				held := heap() - before
				runtime.KeepAlive(list)
				end()
				require.Equal(t, err, listErr)
				if err != nil {
					require.True(t, apierrors.IsRequestEntityTooLargeError(err), "%v", err)
					continue
				}
				t.Logf("%d packages, limit %d: %.1f MiB take %.1f MiB", row.packages, row.limit, float64(held)/(1<<20), float64(cost)/(1<<20))
				require.Less(t, held, cost*3/2+1<<20)
				require.Less(t, held, row.most*3/2+1<<20)
			}
		})
	}
}

// sizes records the sizes of what is written.
type sizes struct{ largest int }

// Write implements io.Writer.
func (s *sizes) Write(data []byte) (int, error) {
	s.largest = max(s.largest, len(data))
	return len(data), nil
}

func TestEncodesTheItemsOfAListOneByOne(t *testing.T) {
	m := direct(t)
	m.stored(t, describedBy(t, metadata(`{"description":"`+strings.Repeat("x", 100_000)+`"}`)), 20)
	ctx, end := request(t, "u")
	defer end()
	list, err := m.List(ctx, nil)
	require.NoError(t, err)
	group := genericserver.NewDefaultAPIGroupInfo(packagesv1.GroupVersion.Group, scheme, parameterCodec, codecs)
	json := group.NegotiatedSerializer.SupportedMediaTypes()[0]
	require.Equal(t, kruntime.ContentTypeJSON, json.MediaType)
	written := &sizes{}
	require.NoError(t, group.NegotiatedSerializer.EncoderForVersion(json.Serializer, packagesv1.GroupVersion).Encode(list, written))
	require.Greater(t, written.largest, 100_000)
	require.Less(t, written.largest, 200_000)
}

// Some encodings need many times the memory of a list: each {} becomes a line with indentation, or nodes of YAML.
func TestServesNoEncodingThatNeedsMuchMemory(t *testing.T) {
	s := serving(t)
	s.put(global, "c", describedBy(t, metadata(`{"maintainers":`+empty("{}", 1000)+`}`)))
	for _, n := range []int{1, 2} {
		var more []packages.Record
		for i := range 8 {
			r := record("c", fmt.Sprint("p", i), "x")
			r.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", 1<<20)
			more = append(more, r)
		}
		s.put(global, fmt.Sprint("more", n), more...)
	}
	s.complete()
	get := func(path, accept string) (int, string) {
		got := s.do(http.MethodGet, "/namespaces/n/packagemanifests"+path, nil, http.Header{"Accept": {accept}, "User-Agent": {"curl/8"}})
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, string(text)
	}
	code, _ := get("", "application/yaml")
	require.Equal(t, http.StatusNotAcceptable, code)
	for _, path := range []string{"", "?pretty=true", "/p", "/p?pretty=true"} {
		code, text := get(path, "application/json;pretty=1")
		require.Equal(t, http.StatusOK, code)
		require.NotContains(t, text, "\n ", path)
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for path, want := range map[string]int{
		"": http.StatusOK, "?includeObject=Metadata": http.StatusOK, "?includeObject=None": http.StatusOK, "?includeObject=Object": http.StatusRequestEntityTooLarge,
		"?includeObject=Object&limit=500": http.StatusOK, "/p?includeObject=Object": http.StatusOK,
	} {
		code, text := get(path, table)
		require.Equal(t, want, code, path)
		require.Equal(t, want == http.StatusOK, strings.Contains(text, `"columnDefinitions"`), path)
	}
}

// A tenant can replace a catalog every ten seconds, while the tenant's requests wait for a response that is read slowly.
func TestRequestsThatWaitDoNotKeepReplacedCatalogs(t *testing.T) {
	m := direct(t)
	large := record("c", "p", "x")
	large.Manifest.Status.Channels[0].CurrentCSVDesc.LongDescription = strings.Repeat("x", 1<<20)
	slow, end := request(t, "slow")
	require.NoError(t, m.room.take(slow, maxReadingUser))
	var old []weak.Pointer[store.Catalog]
	var entries []weak.Pointer[store.Entry]
	results := make(chan error, 9)
	remember := func() {
		all, _ := m.store.Catalogs()
		old = append(old, weak.Make(all[0]))
		found, _ := m.store.List(store.View{})
		for _, e := range found {
			entries = append(entries, weak.Make(e))
		}
	}
	icons := &iconREST{m}
	for round := range 3 {
		m.stored(t, large, 4+round)
		remember()
		for _, do := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := m.Get(ctx, "p00003", &metav1.GetOptions{}); return err },
			func(ctx context.Context) error {
				_, err := m.List(ctx, &metainternalversion.ListOptions{Limit: 3})
				return err
			},
			func(ctx context.Context) error { _, err := icons.Connect(ctx, "p00003", nil, nil); return err },
		} {
			waiting := m.waiting("slow")
			ctx, done := request(t, "slow")
			go func() {
				err := do(genericrequest.WithNamespace(ctx, "n"))
				done()
				results <- err
			}()
			require.Eventually(t, func() bool { return m.waiting("slow") == waiting+1 }, time.Minute, time.Millisecond)
		}
	}
	time.Sleep(100 * time.Millisecond) // the last request looks for its packages
	m.stored(t, large, 7)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		runtime.GC()
		for _, one := range old {
			assert.Nil(c, one.Value())
		}
		for _, one := range entries {
			assert.Nil(c, one.Value())
		}
	}, 20*time.Second, 50*time.Millisecond)
	end()
	for range 9 {
		require.NoError(t, <-results, "each request sends what is current when there is room")
	}
	require.Eventually(t, func() bool { return m.waiting("slow") == 0 }, time.Minute, time.Millisecond)
	// The room of each request is released in a goroutine of its own.
	require.Eventually(t, func() bool { return m.room.all.TryAcquire(maxReading) }, time.Minute, time.Millisecond)
}

// waiting returns the number of requests of a user that wait or are answered.
func (m *manifests) waiting(user string) int {
	m.room.mu.Lock()
	defer m.room.mu.Unlock()
	if own := m.room.users[user]; own != nil {
		return own.requests
	}
	return 0
}

// A package can become larger while a request waits.
func TestAResponseTakesTheRoomOfWhatItSends(t *testing.T) {
	r := newRoom()
	slow, end := request(t, "slow")
	require.NoError(t, r.take(slow, maxReadingUser))
	ctx, done := request(t, "slow")
	defer done()
	sizes := make(chan int64, 3)
	for _, n := range []int64{maxSmall + 1, maxReadingUser / 2, maxReadingUser / 2} {
		sizes <- n
	}
	found := make(chan error)
	go func() {
		_, err := reserve(ctx, r, func() (paged, error) { return paged{size: <-sizes}, nil })
		found <- err
	}()
	require.True(t, r.waits(t, "slow", maxSmall+1))
	end()
	require.NoError(t, <-found)
	require.LessOrEqual(t, len(sizes), 1)
	require.False(t, r.waits(t, "slow", maxReadingUser/2))
	require.True(t, r.waits(t, "slow", maxReadingUser/2+1))
}
