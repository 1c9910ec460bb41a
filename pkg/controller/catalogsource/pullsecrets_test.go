package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/rbac"
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
	w.note(first, attempt{by: key("a"), secrets: reads})
	w.note(second, attempt{by: key("b"), secrets: reads})
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

// reading returns pull secrets that are read with the given function.
func reading(t *testing.T, read func(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error)) *pullSecrets {
	t.Helper()
	return newPullSecrets(&Options{Client: fake.NewClientBuilder().Build(),
		Secrets: func(ctx context.Context, _ rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
			return read(ctx, key)
		}})
}

// credentialsOf returns a Secret with credentials for the registry r.example.com.
func credentialsOf(name string, size int) *corev1.Secret {
	const auths = `{"auths":{"r.example.com":{"username":"u","password":"p"}}}`
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(auths + strings.Repeat(" ", max(0, size-len(auths))))}}
}

// All pulls of a namespace, and those of all namespaces, keep a limited size of credentials, which other namespaces cannot use up.
func TestPullsKeepALimitedSizeOfCredentials(t *testing.T) {
	const large = 250 << 10
	size := large
	p := reading(t, func(_ context.Context, key types.NamespacedName) (*corev1.Secret, error) {
		return credentialsOf(key.Name, size), nil
	})
	access := func(namespace string) (kit.Retry, error) {
		pull := kit.NewRetry()
		_, err := p.Access(t.Context(), types.NamespacedName{Namespace: namespace, Name: "c"}, []string{"a", "b"}, pull)
		return pull, err
	}
	var pulls []kit.Retry
	for n := range maxHeld / maxNamespaceHeld {
		for range maxNamespaceHeld / large / 2 {
			pull, err := access(fmt.Sprint("ns", n))
			require.NoError(t, err)
			pulls = append(pulls, pull)
		}
	}
	_, err := access("ns0")
	require.ErrorContains(t, err, `Secret "a": the pull secrets of the images that are pulled for namespace ns0 now contain more than 2097152 bytes of credentials`)
	_, err = access("other")
	require.ErrorContains(t, err, "pulled for all namespaces now contain more than")
	size = leastHeld / 2
	pull, err := access("usual")
	require.NoError(t, err, "the usual pull secrets fit")
	p.Forget(pull)
	size = large
	for _, pull := range pulls[:2] {
		p.Forget(pull)
	}
	pull, err = access("other")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Clock = clock.RealClock{}
	p.Wait(ctx, "other", pull, time.Hour) // the attempt has ended
	_, err = access("other")
	require.NoError(t, err)
}

// Secrets that cannot be used do not prevent the use of others, and the error lists all of them.
func TestABadPullSecretLosesNoOther(t *testing.T) {
	p := reading(t, func(_ context.Context, key types.NamespacedName) (*corev1.Secret, error) {
		switch key.Name {
		case "large":
			return credentialsOf(key.Name, maxNamespaceHeld-1), nil
		case "opaque":
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, nil
		case "gone":
			return nil, errors.New("no such Secret")
		}
		return credentialsOf(key.Name, 0), nil
	})
	got, err := p.Access(t.Context(), key("c"), []string{"large", "opaque", "gone", "good"}, kit.NewRetry())
	for _, problem := range []string{`Secret "large" contains 2097151 bytes of credentials, but at most 262144 are allowed`, `Secret "opaque" has type`, `Secret "gone": no such Secret`} {
		require.ErrorContains(t, err, problem)
	}
	registry, err := name.NewRegistry("r.example.com")
	require.NoError(t, err)
	auth, err := got.Keychain.Resolve(registry)
	require.NoError(t, err)
	config, err := auth.Authorization()
	require.NoError(t, err)
	require.Equal(t, "u", config.Username)
}

// A Secret can have more than a MiB, so that few of them are read at the same time, and none for long.
func TestFewSecretsAreReadAtTheSameTime(t *testing.T) {
	var running, most atomic.Int32
	begun := make(chan struct{}, 100)
	p := reading(t, func(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		begun <- struct{}{}
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > readTimeout {
			return nil, errors.New("the read has no deadline")
		}
		if key.Namespace == "slow" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return credentialsOf(key.Name, 0), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			_, _ = p.Access(ctx, types.NamespacedName{Namespace: "slow", Name: "c"}, []string{"a"}, kit.NewRetry())
		})
	}
	for range maxNamespaceReads {
		<-begun
	}
	require.Eventually(t, func() bool { return p.reads.Waiting() == 10-maxNamespaceReads }, time.Minute, time.Millisecond)
	_, err := p.Access(t.Context(), key("c"), []string{"a"}, kit.NewRetry())
	require.NoError(t, err, "other namespaces do not wait")
	require.LessOrEqual(t, most.Load(), int32(maxNamespaceReads+1))
	cancel()
	group.Wait()
}

// The images of a namespace are polled every 30 seconds at most. Without a pace, all their Secrets would be read each time.
func TestPollsReadSecretsAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads [2]atomic.Int64
		p := reading(t, func(_ context.Context, key types.NamespacedName) (*corev1.Secret, error) {
			reads[len(key.Namespace)-1].Add(1)
			return credentialsOf(key.Name, 1), nil
		})
		p.GlobalNamespace = "gg"
		var names []string
		for i := range maxSecrets {
			names = append(names, fmt.Sprint("s", i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var polls sync.WaitGroup
		for i := range maxImages {
			for _, namespace := range []string{"t", "gg"} {
				polls.Go(func() {
					for pull := kit.NewRetry(); ctx.Err() == nil; time.Sleep(shortestPoll) {
						_, _ = p.Access(ctx, types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}, names, pull)
						p.Forget(pull)
					}
				})
			}
		}
		polls.Wait()
		require.LessOrEqual(t, reads[0].Load(), int64(readBurst+600))
		require.GreaterOrEqual(t, reads[0].Load(), int64(readBurst+500))
		require.GreaterOrEqual(t, reads[1].Load(), int64(maxImages*maxSecrets*20), "the global catalog namespace has no pace")
	})
}

// A namespace whose Secrets have not been read for a while leaves nothing behind.
func TestPacesThatAreNotInUseAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPullSecrets(&Options{GlobalNamespace: "remit"})
		for i := range 1000 {
			require.NoError(t, p.paceOf(fmt.Sprint("t", i)).Wait(t.Context()))
			time.Sleep(readInterval / 2)
		}
		require.LessOrEqual(t, len(p.paces), 4)
		require.Same(t, p.paceOf("t999"), p.paceOf("t999"))
	})
}
