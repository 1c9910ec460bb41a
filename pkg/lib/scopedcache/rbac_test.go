package scopedcache_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// notified returns a function that returns the notifications that owners of claims have received since notified was
// called, as "<owner> <state>".
func (w *world) notified() func() []string {
	w.Helper()
	var mu sync.Mutex
	var got []string
	changes := w.Changes(func(o scopedcache.OwnerRef, status scopedcache.ClaimStatus) []reconcile.Request {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, o.Key.Name+" "+string(status.State))
		return nil
	})
	require.NoError(w, changes.Start(w.Context(), w.queue()))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

func (w *world) queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	w.Cleanup(queue.ShutDown)
	return queue
}

// requireNotified waits until exactly these notifications have been received, and verifies that no others follow.
func (w *world) requireNotified(notified func() []string, want ...string) {
	w.Helper()
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, want, notified()) })
	<-time.After(3 * settled)
	require.Equal(w, want, notified())
}

func rechecking(o *scopedcache.Options) { o.RecheckPeriod = time.Second }

func TestT28ARevocationIsNoticed(t *testing.T) {
	t.Parallel()
	w := given(t, rechecking)
	notified, queue := w.notified(), w.queue()
	x := w.namespace()
	revoke := w.grant(x, all)
	w.secret(x, "a")
	e := w.handle(&corev1.Secret{})
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	w.requireNotified(notified, "o Live")
	require.NoError(t, w.Changes(nil).Start(t.Context(), queue))
	revoke()
	require.Equal(t, all, w.becomes(o, scopedcache.Namespace(x), scopedcache.Denied).Missing)
	_, err := w.read(x, "a")
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = w.names(client.InNamespace(x))
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	informer, err := w.GetInformer(t.Context(), &corev1.Secret{})
	require.NoError(t, err)
	require.Empty(t, informer.(toolscache.SharedIndexInformer).GetStore().ListKeys(), "the objects were dropped")
	require.Equal(t, []string{"add a"}, peek(e), "the object was not deleted")
	w.requireNotified(notified, "o Live", "o Denied")
	require.Equal(t, 1, queue.Len())
	item, _ := queue.Get()
	require.Equal(t, types.NamespacedName{Namespace: "owners", Name: "o"}, item.NamespacedName)
}

func TestT29ARefusedWriteIsAHint(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) { o.RecheckPeriod = -1 })
	x := w.namespace()
	revoke := w.grant(x, all)
	w.secret(x, "a")
	o := owner("o")
	w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
	revoke()
	w.ReportForbidden(errors.New("something else"), &corev1.Secret{}, x)
	writer, err := client.New(w.config, client.Options{})
	require.NoError(t, err)
	err = writer.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x, Name: "b"}}) // the user is never allowed to create Secrets
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.Equal(t, scopedcache.Live, w.Status(o)[0].State, "without a hint, the revocation is not noticed")
	w.eventually(func(ct *assert.CollectT) { // the API server's own cache of roles may lag
		w.ReportForbidden(err, &corev1.Secret{}, x)
		assert.Equal(ct, scopedcache.Denied, w.Status(o)[0].State)
	})
}

func TestT30AGrantIsNoticed(t *testing.T) {
	t.Parallel()
	w := given(t)
	notified := w.notified()
	x := w.namespace()
	w.secret(x, "a")
	o := owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(x)))
	w.requireNotified(notified, "o Denied")
	w.grant(x, all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	_, err := w.read(x, "a")
	require.NoError(t, err)
	w.requireNotified(notified, "o Denied", "o Live")
}

func watchingRBAC(o *scopedcache.Options) {
	o.WatchRBAC = true
	o.RecheckPeriod = -1
	o.Retry = scopedcache.Retry{Initial: time.Hour, Max: time.Hour}
}

// Neither retries nor rechecks would detect the changes during this test.
func TestRBACIsWatched(t *testing.T) {
	t.Parallel()
	w := given(t, watchingRBAC)
	w.grantOn("rbac.authorization.k8s.io", "*", "", all)
	x, y := w.namespace(), w.namespace()
	w.secret(x, "a")
	o := owner("o")
	// The watches of RBAC itself were refused at first.
	w.Ensure(t.Context(), o, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Denied)
	w.becomes(o, scopedcache.Namespace(y), scopedcache.Denied)
	revoke := w.grant(x, all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	w.becomes(o, scopedcache.Namespace(y), scopedcache.Denied)
	revoke()
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Denied)
	w.grant("", all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	w.becomes(o, scopedcache.Namespace(y), scopedcache.Live)
}

// At first, the API server does not respond to the request that determines the cache's user.
func TestRBACIsWatchedAfterAFailure(t *testing.T) {
	t.Parallel()
	w := prepare(t, watchingRBAC)
	var failed atomic.Int32
	w.log.intercept(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "selfsubjectreviews") && failed.Add(1) < 3 {
			return nil, io.EOF
		}
		return nil, nil
	})
	w.grantOn("rbac.authorization.k8s.io", "*", "", all)
	w.start()
	x, o := w.namespace(), owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(x)))
	w.eventually(func(ct *assert.CollectT) { assert.NotEmpty(ct, w.log.open("rolebindings")) })
	w.grant(x, all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
}

func TestT31ADeniedNamespaceDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	w.grant(y, all)
	w.secret(y, "a")
	w.claim(owner("denied"), scopedcache.Denied, secrets(scopedcache.Namespace(x)))
	e := w.handle(&corev1.Secret{})
	w.claim(owner("allowed"), scopedcache.Live, secrets(scopedcache.Namespace(y)))
	_, err := w.read(y, "a")
	require.NoError(t, err)
	require.True(t, w.WaitForCacheSync(t.Context()))
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add a"}, peek(e)) })
}

func TestT32ListAndWatchAreBothRequired(t *testing.T) {
	t.Parallel()
	w := given(t)
	x, y := w.namespace(), w.namespace()
	w.grant(x, []string{"list"})
	w.grant(y, []string{"watch"})
	for _, ns := range []string{x, y} {
		w.secret(ns, "a")
	}
	o := owner("o")
	w.Ensure(t.Context(), o, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
	got := w.becomes(o, scopedcache.Namespace(x), scopedcache.Denied)
	require.Equal(t, []string{"watch"}, got.Missing)
	_, err := w.read(x, "a")
	require.ErrorContains(t, err, "cannot watch secrets in namespace "+x)
	w.becomes(o, scopedcache.Namespace(y), scopedcache.Live) // the watch itself sends the initial list
	_, err = w.read(y, "a")
	require.NoError(t, err)
}

func TestT33ManyDeniedScopesShareABudget(t *testing.T) {
	t.Parallel()
	const scopes, qps = 200, 20
	w := given(t, func(o *scopedcache.Options) {
		o.ProbeQPS, o.Retry = qps, scopedcache.Retry{Initial: time.Millisecond, Max: 2 * time.Millisecond}
	})
	x := w.namespace()
	o := owner("o")
	for i := range scopes {
		w.Ensure(t.Context(), o, secrets(scopedcache.Object(x, "s"+string(rune('a'+i%26))+strings.Repeat("x", i/26))))
	}
	w.eventually(func(ct *assert.CollectT) {
		for _, s := range w.Status(o) {
			assert.Equal(ct, scopedcache.Denied, s.State)
		}
	})
	started := time.Now() // before the requests that are not counted, because the machine may be busy in between
	w.log.take("secrets")
	<-time.After(2 * time.Second)
	requests := len(w.log.take("secrets"))
	// Each attempt consists of a watch and a list of one object, which determines whether list is also refused. A few
	// requests were already in flight.
	require.LessOrEqual(t, float64(requests), 2*(qps*time.Since(started).Seconds()+10))
	require.Positive(t, requests)
}

// A hint that the permission may have been granted justifies a request that exceeds the budget.
func TestT33AHintBypassesTheBudget(t *testing.T) {
	t.Parallel()
	w := given(t, func(o *scopedcache.Options) {
		o.ProbeQPS, o.Retry = 0.001, scopedcache.Retry{Initial: time.Millisecond, Max: 2 * time.Millisecond}
	})
	x, y := w.namespace(), w.namespace()
	o := owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(x)), secrets(scopedcache.Namespace(y)))
	w.eventually(func(ct *assert.CollectT) { // the budget is used up
		w.log.take("secrets")
		<-time.After(settled)
		assert.Empty(ct, w.log.take("secrets"))
	})
	w.grant(x, all)
	w.grant(y, all)
	w.eventually(func(ct *assert.CollectT) {
		w.Recheck("")
		<-time.After(settled) // hints have a separate budget
		for _, s := range w.Status(o) {
			assert.Equal(ct, scopedcache.Live, s.State)
		}
	})
}

func TestT34OtherFailuresAreNotDenials(t *testing.T) {
	t.Parallel()
	response := func(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			text := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + string(reason) + `","code":` + http.StatusText(code) + `}`
			text = strings.Replace(text, http.StatusText(code), map[int]string{401: "401", 410: "410", 429: "429", 500: "500"}[code], 1)
			return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		}
	}
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"an expired token":     response(401, metav1.StatusReasonUnauthorized),
		"too many requests":    response(429, metav1.StatusReasonTooManyRequests),
		"an internal error":    response(500, metav1.StatusReasonInternalError),
		"an expired version":   response(410, metav1.StatusReasonExpired),
		"a refused connection": func(*http.Request) (*http.Response, error) { return nil, errors.New("connect: connection refused") },
		"the end of the file":  func(*http.Request) (*http.Response, error) { return nil, io.EOF },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := given(t)
			x := w.namespace()
			w.grant(x, all)
			w.secret(x, "a")
			e := w.handle(&corev1.Secret{})
			o := owner("o")
			w.claim(o, scopedcache.Live, secrets(scopedcache.Namespace(x)))
			var asked atomic.Int32
			w.log.intercept(func(r *http.Request) (*http.Response, error) {
				if !strings.Contains(r.URL.Path, "secrets") {
					return nil, nil
				}
				asked.Add(1)
				return answer(r)
			})
			w.Recheck(x)
			w.eventually(func(ct *assert.CollectT) { assert.Positive(ct, asked.Load()) })
			w.becomes(o, scopedcache.Namespace(x), scopedcache.Backoff)
			_, err := w.read(x, "a")
			require.NoError(t, err, "cached objects can still be read")
			_, err = w.read(x, "b")
			var not *scopedcache.NotSyncedError
			require.ErrorAs(t, err, &not, "it is unknown whether the object exists")
			w.secret(x, "b")
			w.log.intercept(nil)
			w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
			w.eventually(func(ct *assert.CollectT) {
				_, err := w.read(x, "b")
				assert.NoError(ct, err)
			})
			w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, []string{"add a", "add b"}, peek(e)) })
		})
	}
}

// The cache sends list and watch requests to determine whether they are allowed. It sends no access reviews, because an
// authorizer may answer them incompletely.
func TestT35NoAccessReviewsAreSent(t *testing.T) {
	t.Parallel()
	w := given(t)
	x := w.namespace()
	o := owner("o")
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(x)))
	w.grant(x, all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	require.NotEmpty(t, w.log.take("secrets"))
	for _, review := range []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews", "localsubjectaccessreviews"} {
		require.Empty(t, w.log.take(review))
	}
}

func TestT36PermissionsAreRepeatedlyGrantedAndRevoked(t *testing.T) {
	t.Parallel()
	w := given(t, rechecking)
	notified := w.notified()
	x := w.namespace()
	w.secret(x, "a")
	o := owner("o")
	started := time.Now()
	w.claim(o, scopedcache.Denied, secrets(scopedcache.Namespace(x)))
	for range 20 {
		w.grant(x, all)()
		w.Recheck(x)
	}
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Denied)
	w.grant(x, all)
	w.becomes(o, scopedcache.Namespace(x), scopedcache.Live)
	w.watches(x)
	w.eventually(func(ct *assert.CollectT) { assert.Equal(ct, "o Live", last(notified())) })
	states := notified()
	require.Equal(t, slices.Compact(slices.Clone(states)), states, "consecutive states differ")
	require.LessOrEqual(t, len(states), 1+int(time.Since(started)/(100*time.Millisecond)), "changes are collected")
}

func TestT37APrimaryKindCanBeDenied(t *testing.T) {
	t.Parallel()
	w := given(t, primary(&corev1.Secret{}))
	w.handle(&corev1.Secret{})
	require.True(t, w.WaitForCacheSync(t.Context()))
	healthy := w.Healthz(&corev1.Secret{})
	w.eventually(func(ct *assert.CollectT) {
		err := healthy(nil)
		assert.ErrorContains(ct, err, "Secret in the cluster: Denied")
	})
	w.grant("", all)
	w.eventually(func(ct *assert.CollectT) { assert.NoError(ct, healthy(nil)) })
}
