package scopedcache

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// interrupted calls a function once before controller-runtime's cache gets or lists, or before it removes an informer.
type interrupted struct {
	cache.Cache
	list, again, remove, get func()
}

func (i *interrupted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	once(&i.list)
	return i.Cache.List(ctx, list, opts...)
}

func (i *interrupted) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	once(&i.get)
	return i.Cache.Get(ctx, key, obj, opts...)
}

func (i *interrupted) RemoveInformer(ctx context.Context, obj client.Object) error {
	once(&i.remove)
	return i.Cache.RemoveInformer(ctx, obj)
}

func once(do *func()) {
	if f := *do; f != nil {
		*do = nil
		f()
	}
}

func (f *fake) names(opts ...client.ListOption) ([]string, error) {
	list := &corev1.SecretList{}
	err := f.List(f.Context(), list, opts...)
	names := []string{}
	for _, s := range list.Items {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	return names, err
}

// A List of the cluster combines the claimed namespaces. While it runs, a claim is added for another namespace or an
// object in it.
func TestAListOmitsObjectsThatAreClaimedWhileItRuns(t *testing.T) {
	t.Parallel()
	other := secretAt("b", "10")
	other.Namespace = "y"
	for _, scope := range []Scope{Object("y", "b"), Namespace("y")} {
		f := newFake(t)
		f.claim("n", Namespace("x")).lists(t, "10", secretAt("a", "10"))
		f.Cache.Cache = &interrupted{Cache: f.Cache.Cache, list: func() { f.claim("o", scope).lists(t, "10", other) }}
		got, err := f.names()
		require.NoError(t, err)
		if scope == Namespace("y") {
			require.ElementsMatch(t, []string{"x/a", "y/b"}, got, "the namespace is now part of the result")
		} else {
			require.Equal(t, []string{"x/a"}, got)
		}
	}
}

// During each List, another owner claims an object of the kind in another namespace and releases it.
func TestAListIsNotDelayedByOtherNamespaces(t *testing.T) {
	t.Parallel()
	other := secretAt("z", "10")
	other.Namespace = "y"
	for _, opts := range [][]client.ListOption{{client.InNamespace("x"), client.Limit(9)}, nil} { // controller-runtime's cache handles limits
		f := newFake(t)
		f.claim("o", Namespace("x")).lists(t, "10", secretAt("a", "10"))
		hook, tries := &interrupted{Cache: f.Cache.Cache}, 0
		hook.list = func() {
			f.claim("p", Object("y", "z")).lists(t, "11", other)
			f.Release(ownerOf("p"))
			if tries++; tries < 10 {
				hook.list = hook.again
			}
		}
		hook.again, f.Cache.Cache = hook.list, hook
		got, err := f.names(opts...)
		require.NoError(t, err)
		require.Equal(t, []string{"x/a"}, got)
		require.Equal(t, 1, tries)
	}
}

// A List that never completes ends when its context is done.
func TestAListEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.claim("o", Namespace("x")).lists(t, "10")
	ctx, cancel := context.WithCancel(t.Context())
	var forget func()
	hook := &interrupted{Cache: f.Cache.Cache}
	tries := 0
	forget = func() {
		f.secrets.mu.Lock()
		f.secrets.dropped("x")
		f.secrets.mu.Unlock()
		if tries++; tries == 3 {
			cancel()
		}
		hook.list = forget
	}
	hook.list, f.Cache.Cache = forget, hook
	err := f.List(ctx, &corev1.SecretList{}, client.InNamespace("x"), client.Limit(9)) // controller-runtime's cache handles limits
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, apierrors.IsTimeout(err))
	require.Equal(t, 3, tries)
}

// While RemoveInformer removes a kind, the kind is claimed again and read.
func TestReadsWhileAKindIsRemoved(t *testing.T) {
	t.Parallel()
	one := func(names []string, err error) error {
		if err == nil && len(names) != 1 {
			err = fmt.Errorf("%d objects", len(names))
		}
		return err
	}
	for name, read := range map[string]func(*fake) error{
		"Get": func(f *fake) error {
			return f.Get(f.Context(), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{})
		},
		"List":              func(f *fake) error { return one(f.names(client.InNamespace("x"))) },
		"List with a limit": func(f *fake) error { return one(f.names(client.InNamespace("x"), client.Limit(9))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.claim("o", Namespace("x")).lists(t, "10", secretAt("a", "10"))
			require.NoError(t, read(f))
			f.Cache.Cache = &interrupted{Cache: f.Cache.Cache, remove: func() {
				f.secrets = f.kind(f.secrets.key)
				f.claim("o", Namespace("x")).lists(t, "20", secretAt("a", "10"))
				require.NoError(t, read(f))
			}}
			require.NoError(t, f.RemoveInformer(t.Context(), &corev1.Secret{}))
			require.NoError(t, read(f))
		})
	}
}

func TestDroppedNamespacesAreLimited(t *testing.T) {
	t.Parallel()
	k := newFake(t).secrets
	before := k.generationOf(Namespace("x"))
	k.dropped("x")
	after := k.generationOf(Namespace("x"))
	require.Greater(t, after, before)
	for i := range 2 * mostDropped {
		k.dropped(fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(k.droppedIn), mostDropped)
	require.GreaterOrEqual(t, k.generationOf(Namespace("x")), after, "the bound never decreases, so that no read misses a drop")
}

func TestAllPartsOfAListShareATimeout(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) { o.PartialList, o.ReadTimeout = true, time.Second })
	for i := range 20 {
		f.claim("o", Namespace(fmt.Sprint("n", i)))
	}
	started := time.Now()
	var gap *GapError
	require.ErrorAs(t, f.List(t.Context(), &corev1.SecretList{}), &gap)
	require.Len(t, gap.Errs, 20)
	require.Less(t, time.Since(started), 10*time.Second)
}

// Objects may have been created since the watch was interrupted.
func TestAListFailsWhileTheWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		f := newFake(t, func(o *Options) { o.PartialList = partial })
		feed := f.claim("o", Namespace("x"))
		feed.lists(t, "10", secretAt("a", "10"))
		feed.fails()
		got, err := f.names(client.InNamespace("x"))
		var not *NotSyncedError
		require.ErrorAs(t, err, &not)
		require.NoError(t, f.Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{}))
		if partial {
			require.Equal(t, []string{"x/a"}, got)
		}
	}
}
