package catalogsource

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/test/env/registry"
)

// While a failed pull waits for its retry, its readable and missing Secrets are watched.
func TestWatchesPullSecretsAfterAFailedPull(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "there", ResourceVersion: "7"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)}}
	w := running(t, there, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref, Secrets: []string{"there", "gone"}}))
	type watched struct {
		name, version string
		changed       func()
		ctx           context.Context //nolint:containedctx // the test waits until the context ends
	}
	watches := make(chan watched, 10)
	w.pulls.WatchSecret = func(ctx context.Context, key types.NamespacedName, version string, changed func()) {
		watches <- watched{key.Name, version, changed, ctx}
		<-ctx.Done()
	}
	require.Contains(t, w.afterCheck(t, "cat").Message, "401")
	seen := map[string]watched{}
	for range 2 {
		got := <-watches
		seen[got.name] = got
	}
	require.Equal(t, "7", seen["there"].version)
	require.Empty(t, seen["gone"].version)

	s.Answer(nil)
	seen["gone"].changed()
	require.True(t, w.isRetried(t, true))
	requireReady(t, w.statusNow(t, "cat"))
	require.ErrorIs(t, seen["there"].ctx.Err(), context.Canceled)
	require.Eventually(t, func() bool {
		w.pulls.mu.Lock()
		defer w.pulls.mu.Unlock()
		return len(w.pulls.pulls)+len(w.pulls.running) == 0
	}, time.Minute, time.Millisecond)
	require.Empty(t, watches)
}

// statusNow waits for the wake-up after a check, and returns the status.
func (w *world) statusNow(t *testing.T, name string) operatorsv1alpha1.CatalogSourceStatus {
	t.Helper()
	require.Equal(t, key(name), <-w.woken)
	return w.reconcile(t, name)
}

func TestLimitsTheWatchesOfANamespace(t *testing.T) {
	var running atomic.Int32
	w := &pullSecrets{Options: &Options{WatchSecret: func(ctx context.Context, _ types.NamespacedName, _ string, _ func()) {
		running.Add(1)
		<-ctx.Done()
		running.Add(-1)
	}}}
	reads := map[string]string{}
	for i := range maxWatches + 3 {
		reads[fmt.Sprint(i)] = "1"
	}
	first, second := kit.NewRetry(), kit.NewRetry()
	w.note(first, attempt{key("a"), reads})
	w.note(second, attempt{key("b"), reads})
	endFirst := w.watch(t.Context(), "a", first)
	endSecond := w.watch(t.Context(), "b", second)
	require.Eventually(t, func() bool { return running.Load() == 2*maxWatches }, time.Minute, time.Millisecond)
	endThird := w.watch(t.Context(), "a", second)
	endFirst()
	require.EqualValues(t, maxWatches, running.Load())
	endSecond()
	endThird()
	require.Zero(t, running.Load())
	require.Empty(t, w.running)
	w.watch(t.Context(), "a", kit.NewRetry())()
}

// Each pull secret is a request for every attempt at a pull.
func TestAPullUsesALimitedNumberOfSecrets(t *testing.T) {
	var refs []corev1.LocalObjectReference
	for i := range 100_000 {
		refs = append(refs, corev1.LocalObjectReference{Name: fmt.Sprint("s", i)})
	}
	got, all := namesOf([]string{"a", "b", "a"}, refs[:maxSecrets-2])
	require.True(t, all)
	require.Len(t, got, maxSecrets)
	require.Equal(t, []string{"a", "b", "s0"}, got[:3])
	got, all = namesOf([]string{"a"}, refs)
	require.False(t, all)
	require.Len(t, got, maxSecrets)
}
