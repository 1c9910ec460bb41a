package scopedcache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
	"github.com/remit-olm/remit/test/env/racing"
)

// scripted returns a world in which a function replaces the API server, for cases that rarely occur with a real API
// server.
func scripted(t *testing.T, server func(*http.Request) *http.Response, setups ...setup) *world {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, name := range []string{"Secret", "ConfigMap"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(name), meta.RESTScopeNamespace)
	}
	w := &world{T: t, log: &requestLog{}}
	transport := w.log.wrap(roundTripper(func(r *http.Request) (*http.Response, error) { return server(r), nil }))
	options := scopedcache.Options{
		Mapper: mapper, HTTPClient: &http.Client{Transport: transport}, Linger: -1, RecheckPeriod: -1,
		Retry: scopedcache.Retry{Initial: 20 * time.Millisecond, Max: 40 * time.Millisecond},
	}
	for _, s := range setups {
		s(&options)
	}
	var err error
	w.Cache, err = scopedcache.New(&rest.Config{Host: "http://scripted"}, options)
	require.NoError(t, err)
	w.start()
	return w
}

// initialEventsEnd is the event that ends the list with which a watch begins.
const initialEventsEnd = `{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"

// addedSecret is the event for the Secret x/a.
const addedSecret = `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"x","name":"a","resourceVersion":"3"}}}` + "\n"

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"

// tooLarge is the event that ends a watch that begins with a list if the server's cache does not become current within
// 3 s.
const tooLarge = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504,` +
	`"details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}}` + "\n"

// streaming returns the response to a watch. The function write writes the events until the client closes the response.
func streaming(r *http.Request, write func(io.Writer)) *http.Response {
	from, to := io.Pipe()
	go write(to)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: from, Request: r}
}

// watching responds with a watch without objects.
func watching(r *http.Request) *http.Response {
	return streaming(r, func(to io.Writer) {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			_, _ = fmt.Fprintf(to, initialEventsEnd, map[bool]string{true: "ConfigMap", false: "Secret"}[strings.Contains(r.URL.Path, "configmaps")])
		}
	})
}

func failing(r *http.Request, code int, reason string) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"%s","code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
}

// turns handles the first request with the first function, the second with the second, and so on; the last function
// handles all remaining requests.
func turns(answers ...func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	var mu sync.Mutex
	return func(r *http.Request) *http.Response {
		mu.Lock()
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		return next(r)
	}
}

// switching responds with one function until change is called, and then with the other one.
func switching(before, after func(*http.Request) *http.Response) (server func(*http.Request) *http.Response, change func()) {
	var changed atomic.Bool
	return func(r *http.Request) *http.Response {
		if changed.Load() {
			return after(r)
		}
		return before(r)
	}, func() { changed.Store(true) }
}

// onPath responds with one function to requests whose path contains a text, and with another function to all others.
func onPath(text string, those, others func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if strings.Contains(r.URL.Path, text) {
			return those(r)
		}
		return others(r)
	}
}

// unanswered is a request that is never answered.
func unanswered(r *http.Request) *http.Response {
	<-r.Context().Done()
	return failing(r, 500, "InternalError")
}

// untilExpired responds with a watch whose resource version expires when expire is called.
func untilExpired() (answer func(*http.Request) *http.Response, expire func()) {
	expires := make(chan struct{})
	return func(r *http.Request) *http.Response {
		return streaming(r, func(to io.Writer) {
			_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
			<-expires
			_, _ = io.WriteString(to, expired)
		})
	}, func() { close(expires) }
}

// ending responds with a watch that the server soon ends without an error.
func ending(r *http.Request) *http.Response {
	return streaming(r, func(to io.Writer) {
		_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
		<-time.After(1500 * time.Millisecond) // a shorter watch would count as failed
		_ = to.(io.Closer).Close()
	})
}

func forbidden(r *http.Request) *http.Response { return failing(r, 403, "Forbidden") }

// A watch has ended, and the server does not respond to the next requests.
func TestAWatchThatHasEndedIsNotLive(t *testing.T) {
	t.Parallel()
	expiring, expire := untilExpired()
	for name, first := range map[string]struct {
		answer func(*http.Request) *http.Response
		end    func()
	}{"without an error": {ending, func() {}}, "because its version expired": {expiring, expire}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scripted(t, turns(first.answer, unanswered))
			w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
			first.end()
			w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Backoff)
			_, err := w.read("x", "b")
			requireNotSynced(t, err)
			require.ErrorContains(t, err, "the watch has ended")
		})
	}
}

// A watch is refused, and the server does not respond to the list that determines whether list is also refused.
func TestARefusedWatchIsDeniedEvenIfListsHang(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(*http.Request) *http.Response{
		"the first watch": turns(forbidden, unanswered),
		"a later watch":   turns(ending, forbidden, unanswered),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scripted(t, server)
			w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
			require.Equal(t, []string{"watch"}, w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Denied).Missing)
			_, err := w.read("x", "b")
			require.True(t, apierrors.IsForbidden(err), err)
		})
	}
}

func requireNotSynced(t *testing.T, err error) {
	t.Helper()
	var not *scopedcache.NotSyncedError
	require.ErrorAs(t, err, &not)
	require.False(t, apierrors.IsNotFound(err), "no watch shows that the object does not exist")
}

// The next watch is accepted, but its list is slow to arrive.
func TestAWatchIsLiveAfterItsList(t *testing.T) {
	t.Parallel()
	fails := func(r *http.Request) *http.Response { return failing(r, 500, "InternalError") }
	slow := make(chan io.Writer, 1)
	expiring, expire := untilExpired()
	w := scripted(t, turns(expiring, fails, fails, func(r *http.Request) *http.Response {
		return streaming(r, func(to io.Writer) { slow <- to })
	}))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	expire()
	to := <-slow
	<-time.After(settled)
	require.Equal(t, scopedcache.Backoff, w.Status(owner("o"))[0].State)
	_, err := w.read("x", "b")
	requireNotSynced(t, err)
	_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
	w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Live)
}

// listingNothing responds to lists with an empty list, and calls another function for watches.
func listingNothing(watch func(*http.Request) *http.Response) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") != "" {
			return watch(r)
		}
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[]}`)),
		}
	}
}

// Some kinds can be listed, but not watched.
func TestAListWithoutAWatchIsNotLive(t *testing.T) {
	t.Parallel()
	w := scripted(t, listingNothing(func(r *http.Request) *http.Response { return failing(r, 405, "MethodNotAllowed") }))
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
	for started := time.Now(); time.Since(started) < time.Second; {
		require.Contains(t, []scopedcache.State{scopedcache.Syncing, scopedcache.Backoff}, w.Status(owner("o"))[0].State)
	}
	_, err := w.read("x", "a")
	requireNotSynced(t, err)
}

// Older API servers do not let a watch begin with a list.
func TestAFirstReadWaitsForTheWatchAfterTheList(t *testing.T) {
	t.Parallel()
	w := scripted(t, listingNothing(func(r *http.Request) *http.Response {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			return failing(r, 422, "Invalid")
		}
		<-time.After(settled)
		return watching(r)
	}))
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
	_, err := w.read("x", "a")
	require.True(t, apierrors.IsNotFound(err), err)
}

// A list that the server may return from its cache must not be older than the state that the feed has seen.
func TestALaterListIsNotOlder(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	fails := func(r *http.Request) *http.Response { return failing(r, 500, "InternalError") }
	expiring, expire := untilExpired()
	w := scripted(t, turns(expiring, fails, func(r *http.Request) *http.Response {
		asked <- r.URL.RawQuery
		return fails(r)
	}, unanswered))
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	expire()
	query := <-asked
	require.NotContains(t, query, "watch=")
	require.Contains(t, query, "resourceVersion=5")
}

// RecheckPeriod ends watches, but only after their initial lists have been received.
func TestAFirstListMayTakeLongerThanTheRecheckPeriod(t *testing.T) {
	t.Parallel()
	w := scripted(t, func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") == "" {
			return unanswered(r)
		}
		seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
		return streaming(r, func(to io.Writer) {
			select {
			case <-time.After(2500 * time.Millisecond):
				_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
			case <-time.After(time.Duration(seconds) * time.Second):
				_ = to.(io.Closer).Close() // real API servers also close the response
			}
		})
	}, rechecking)
	started := time.Now()
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	require.Less(t, time.Since(started), patience/2)
}

// shortLimits divides the limits by a factor that is small enough for busy machines.
const shortLimits = 5

func impatient(o *scopedcache.Options) { o.Shorten(shortLimits) }

// listStopsAfter is longer than the maximum pause in an initial list.
const listStopsAfter = 11 * time.Second / shortLimits

// A watch can begin with a list, which ends with a bookmark. Here, the bookmark is never received.
func TestAnInitialListWithoutAnEndIsReplaced(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(io.Writer){
		"nothing arrives":     func(io.Writer) {},
		"the stream stalls":   func(to io.Writer) { _, _ = io.WriteString(to, addedSecret) },
		"the stream ends":     func(to io.Writer) { _, _ = io.WriteString(to, addedSecret); _ = to.(io.Closer).Close() },
		"the server fails":    func(to io.Writer) { _, _ = io.WriteString(to, tooLarge) },
		"the list expires":    func(to io.Writer) { _, _ = io.WriteString(to, addedSecret+expired) },
		"the bookmark is cut": func(to io.Writer) { _, _ = io.WriteString(to, addedSecret+initialEventsEnd[:20]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var initial, consistent atomic.Int32
			listing := listingNothing(func(r *http.Request) *http.Response {
				if r.URL.Query().Get("sendInitialEvents") == "" {
					return watching(r)
				}
				initial.Add(1)
				return streaming(r, begin)
			})
			w := scripted(t, func(r *http.Request) *http.Response {
				if query := r.URL.Query(); !query.Has("watch") && !query.Has("resourceVersion") {
					consistent.Add(1)
				}
				return listing(r)
			}, impatient)
			started := time.Now()
			w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
			require.Less(t, time.Since(started), listStopsAfter+10*time.Second, "sooner than any request is ended")
			_, err := w.read("x", "a")
			require.True(t, apierrors.IsNotFound(err), err)
			require.EqualValues(t, 1, initial.Load(), "the second attempt is a plain list")
			require.EqualValues(t, 1, consistent.Load(), "the server may have withheld the bookmark because its cache lags behind")
			require.Len(t, w.log.open("secrets"), 1)
		})
	}
}

// The connection of a watch with a stalled initial list does not close, so the reflector cannot continue.
func TestAStalledInitialListIsReported(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	w := scripted(t, func(r *http.Request) *http.Response {
		response := streaming(r, func(io.Writer) {})
		response.Body = stuck{response.Body, free}
		return response
	}, impatient)
	t.Cleanup(func() { close(free) })
	w.claim(owner("o"), scopedcache.Backoff, secrets(scopedcache.Namespace("x")))
	require.Contains(t, w.Status(owner("o"))[0].Reason, "the initial list of the watch")
}

// A long initial list is not interrupted while it makes progress.
func TestASlowInitialListIsNotEnded(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	w := scripted(t, func(r *http.Request) *http.Response {
		requests.Add(1)
		return streaming(r, func(to io.Writer) {
			for range 4 {
				_, _ = io.WriteString(to, addedSecret)
				<-time.After(listStopsAfter / 4)
			}
			_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
		})
	}, impatient)
	started := time.Now()
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	require.Greater(t, time.Since(started), 10*time.Second/shortLimits)
	require.EqualValues(t, 1, requests.Load())
}

// lists counts the requests that list and the requests that resume a watch.
func (w *world) lists() (lists, resumed int) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.lists, w.log.resumed
}

func TestRechecksResumeTheWatch(t *testing.T) {
	t.Parallel()
	t.Run("Recheck of a new watch", func(t *testing.T) {
		t.Parallel()
		w := scripted(t, watching)
		w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
		for range 3 {
			_, before := w.lists()
			w.Recheck("x")
			w.Recheck("x")
			w.eventually(func(ct *assert.CollectT) {
				_, resumed := w.lists()
				assert.Equal(ct, before+1, resumed)
			})
			require.Equal(t, scopedcache.Live, w.Status(owner("o"))[0].State)
		}
		lists, _ := w.lists()
		require.Equal(t, 1, lists)
	})
	t.Run("a short RecheckPeriod", func(t *testing.T) {
		t.Parallel()
		w := scripted(t, watching, func(o *scopedcache.Options) { o.RecheckPeriod = time.Millisecond })
		w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
		w.eventually(func(ct *assert.CollectT) {
			_, resumed := w.lists()
			assert.Positive(ct, resumed)
		})
		lists, _ := w.lists()
		require.Equal(t, 1, lists)
	})
}

// After a refused write, the cluster-wide watch that serves the namespace is rechecked.
func TestReportForbiddenRechecksTheServingWatch(t *testing.T) {
	t.Parallel()
	w := scripted(t, watching)
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Cluster()))
	w.ReportForbidden(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil), &corev1.Secret{}, "x")
	w.eventually(func(ct *assert.CollectT) {
		_, resumed := w.lists()
		assert.Equal(ct, 1, resumed)
	})
}

func tooMany(r *http.Request) *http.Response { return failing(r, 429, "TooManyRequests") }

// The reflector waits before it retries. Stopping the cache ends the wait, and so does a hint.
func TestStoppingAndHintsInterruptARetryDelay(t *testing.T) {
	t.Parallel()
	never := func(o *scopedcache.Options) { o.Retry = scopedcache.Retry{Initial: 2 * time.Hour, Max: 2 * time.Hour} }
	t.Run("the end", func(t *testing.T) {
		t.Parallel()
		w := scripted(t, tooMany, never)
		w.claim(owner("o"), scopedcache.Backoff, secrets(scopedcache.Namespace("x")))
		// The cleanup of w.start fails if the delay prevents the cache from stopping.
	})
	t.Run("a hint", func(t *testing.T) {
		t.Parallel()
		w := scripted(t, turns(tooMany, watching), never)
		w.claim(owner("o"), scopedcache.Backoff, secrets(scopedcache.Namespace("x")))
		w.eventually(func(ct *assert.CollectT) {
			w.Recheck("x")
			assert.Equal(ct, scopedcache.Live, w.Status(owner("o"))[0].State)
		})
	})
}

func TestRetriesFollowTheOptions(t *testing.T) {
	t.Parallel()
	w := scripted(t, tooMany)
	w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
	const requests = 20
	started := time.Now()
	count := 0
	w.eventually(func(ct *assert.CollectT) {
		count += len(w.log.take("secrets"))
		assert.GreaterOrEqual(ct, count, requests)
	})
	require.Less(t, time.Since(started), requests*time.Second/4, "each retry waits at most 40 ms")
	require.Greater(t, time.Since(started), (requests-2)*10*time.Millisecond)
}

// The retries of refused claims that have been released do not delay other retries.
func TestReleasedClaimsDoNotDelayRetries(t *testing.T) {
	t.Parallel()
	server, allow := switching(forbidden, watching)
	w := scripted(t, server)
	for i := range 300 {
		w.Ensure(t.Context(), owner("many"), secrets(scopedcache.Namespace(fmt.Sprint("n", i))))
	}
	w.all(owner("many"), scopedcache.Denied)
	<-time.After(settled) // each feed is waiting for its turn
	w.Release(owner("many"))
	w.claim(owner("o"), scopedcache.Denied, secrets(scopedcache.Namespace("x")))
	<-time.After(settled)
	allow()
	started := time.Now()
	w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Live)
	require.Less(t, time.Since(started), patience/4)
}

func TestHintsDoNotCauseARequestStorm(t *testing.T) {
	t.Parallel()
	w := scripted(t, forbidden, func(o *scopedcache.Options) { o.Retry = scopedcache.Retry{Initial: time.Hour, Max: time.Hour} })
	w.claim(owner("o"), scopedcache.Denied, secrets(scopedcache.Namespace("x")))
	w.log.take("secrets")
	started := time.Now()
	for range 30 {
		w.Recheck("x")
		<-time.After(100 * time.Millisecond)
	}
	requests := len(w.log.take("secrets"))
	require.Positive(t, requests)
	require.LessOrEqual(t, float64(requests), 2*max(3, time.Since(started).Seconds()), "each retry is a watch and a list")
}

// If the lists of one kind fail or hang, they delay the lists of other kinds only briefly.
func TestAFailingListDoesNotDelayOtherKinds(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) *http.Response{"fails": tooMany, "is not answered": unanswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scripted(t, onPath("secrets", answer, watching), func(o *scopedcache.Options) {
				o.Concurrency, o.Retry = 1, scopedcache.Retry{Initial: 2 * time.Hour, Max: 2 * time.Hour}
				if name != "fails" {
					impatient(o)
				}
			})
			w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Namespace("x")))
			w.eventually(func(ct *assert.CollectT) { assert.NotEmpty(ct, w.log.take("secrets")) })
			started := time.Now()
			w.claim(owner("o"), scopedcache.Live, scopedcache.Claim{Kind: &corev1.ConfigMap{}, Scope: scopedcache.Namespace("y")})
			if name == "fails" {
				require.Less(t, time.Since(started), 4*time.Second)
			}
		})
	}
}

// The cluster-wide list of a primary kind fails or hangs while a namespace is claimed and listed.
func TestAPrimaryKindDoesNotDelayReads(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*http.Request) *http.Response{"fails": tooMany, "is not answered": unanswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scripted(t, onPath("/namespaces/", watching, answer), primary(&corev1.Secret{}))
			_, err := w.GetInformer(t.Context(), &corev1.Secret{})
			require.NoError(t, err)
			w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.True(t, apierrors.IsNotFound(w.Get(ctx, client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{})))
			require.NoError(t, w.List(ctx, &corev1.SecretList{}, client.InNamespace("x")))
			if name == "fails" {
				require.True(t, w.WaitForCacheSync(ctx), "controllers start")
				require.Error(t, w.Healthz()(nil))
			}
		})
	}
}

// The reflector waits before it resumes a watch that ended with TooManyRequests.
func TestAWatchThatEndsWithTooManyRequestsIsNotLive(t *testing.T) {
	t.Parallel()
	w := scripted(t, func(r *http.Request) *http.Response {
		return streaming(r, func(to io.Writer) {
			_, _ = fmt.Fprintf(to, initialEventsEnd, "Secret")
			time.Sleep(1500 * time.Millisecond) // a shorter watch would count as failed
			_, _ = io.WriteString(to, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}}`+"\n")
		})
	}, func(o *scopedcache.Options) { o.Retry = scopedcache.Retry{Initial: 40 * time.Second, Max: time.Minute} })
	w.claim(owner("o"), scopedcache.Live, secrets(scopedcache.Namespace("x")))
	w.becomes(owner("o"), scopedcache.Namespace("x"), scopedcache.Backoff)
}

func TestUnansweredDiscoveryDelaysOtherKindsOnlyBriefly(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["list","watch"]}]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],` +
			`"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
	}
	server := roundTripper(func(r *http.Request) (*http.Response, error) {
		if text, ok := answers[r.URL.Path]; ok {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}
		if strings.HasPrefix(r.URL.Path, "/apis/apps") {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return watching(r), nil
	})
	options := scopedcache.Options{HTTPClient: &http.Client{Transport: server}}
	impatient(&options)
	c, err := scopedcache.New(&rest.Config{Host: "http://scripted"}, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	require.True(t, c.WaitForCacheSync(ctx))
	c.Ensure(ctx, owner("o"), scopedcache.Claim{Kind: &appsv1.Deployment{}, Scope: scopedcache.Namespace("x")})
	require.Never(t, func() bool { return c.Status(owner("o"))[0].State != scopedcache.Syncing }, 500*time.Millisecond, 50*time.Millisecond)
	c.Ensure(ctx, owner("p"), secrets(scopedcache.Namespace("x")))
	require.Eventually(t, func() bool { return c.Status(owner("p"))[0].State == scopedcache.Live }, time.Minute, 50*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

// An owner with many refused claims gets the same share of the budget for retries as any other owner.
func TestRefusedClaimsDoNotDelayOtherOwners(t *testing.T) {
	t.Parallel()
	server, allow := switching(forbidden, onPath("/namespaces/y/", watching, forbidden))
	w := scripted(t, server)
	w.claim(owner("o"), scopedcache.Denied, secrets(scopedcache.Namespace("y")))
	for i := range 300 {
		w.Ensure(t.Context(), owner("many"), secrets(scopedcache.Object("x", fmt.Sprint("s", i))))
	}
	w.all(owner("many"), scopedcache.Denied)
	<-time.After(3 * time.Second) // owner o waits for the other owners
	allow()
	started := time.Now()
	w.becomes(owner("o"), scopedcache.Namespace("y"), scopedcache.Live)
	require.Less(t, time.Since(started), 5*time.Second)
}

// Many claims of an owner become Live again quickly, because only refused retries count toward the budget.
func TestRetriesThatSucceedAreNotLimited(t *testing.T) {
	t.Parallel()
	const claims = 200
	server, allow := switching(forbidden, watching)
	w := scripted(t, server, func(o *scopedcache.Options) { o.ProbeQPS = 2 })
	for i := range claims {
		w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Object("x", fmt.Sprint("s", i))))
	}
	w.all(owner("o"), scopedcache.Denied)
	allow()
	started := time.Now()
	w.all(owner("o"), scopedcache.Live)
	require.Less(t, time.Since(started), racing.Slowdown*claims*time.Second/4)
}

// The lists of an owner hang and occupy all slots of their kind.
func TestHungListsDoNotDelayOtherOwners(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]scopedcache.Claim{
		"of another kind":            {Kind: &corev1.ConfigMap{}, Scope: scopedcache.Namespace("y")},
		"of the same kind":           secrets(scopedcache.Namespace("y")),
		"an object of the same kind": secrets(scopedcache.Object("y", "a")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := scripted(t, onPath("/namespaces/x/", unanswered, watching), func(o *scopedcache.Options) {
				if o.Concurrency = 4; name != "of another kind" {
					impatient(o)
				}
			})
			for i := range 40 {
				w.Ensure(t.Context(), owner("many"), secrets(scopedcache.Object("x", fmt.Sprint("s", i))))
			}
			<-time.After(settled)
			started := time.Now()
			w.claim(owner("o"), scopedcache.Live, claim)
			if name == "of another kind" {
				require.Less(t, time.Since(started), 4*time.Second, "half of the slots are for other kinds")
			}
			require.Less(t, time.Since(started), 8*time.Second, "a slot becomes free after at most 5 s, here 1 s")
		})
	}
}

// Hints also have a budget, because an owner may report each refused write.
func TestManyHintsShareABudget(t *testing.T) {
	t.Parallel()
	const scopes, qps, atOnce = 300, 5, 100
	w := scripted(t, forbidden, func(o *scopedcache.Options) {
		o.ProbeQPS, o.Retry = qps, scopedcache.Retry{Initial: time.Hour, Max: time.Hour}
	})
	for i := range scopes {
		w.Ensure(t.Context(), owner("o"), secrets(scopedcache.Object("x", fmt.Sprint("s", i))))
	}
	w.all(owner("o"), scopedcache.Denied)
	w.log.take("secrets")
	started := time.Now()
	for time.Since(started) < 5*time.Second {
		w.ReportForbidden(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil), &corev1.Secret{}, "x")
		<-time.After(100 * time.Millisecond)
	}
	requests := len(w.log.take("secrets"))
	require.Positive(t, requests)
	require.LessOrEqual(t, float64(requests), 2*(atOnce+2*qps*time.Since(started).Seconds()), "each retry is a watch and a list")
}
