package scopedcache

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fake is a cache whose feeds send no requests. The test determines the API server's response to each feed, in any
// order, including orders that rarely occur with a real server.
type fake struct {
	*testing.T
	*Cache
	secrets, configMaps *kind
	handler             *registration

	mu       sync.Mutex
	recorded []string
}

func newFake(t *testing.T, change ...func(*Options)) *fake {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, name := range []string{"Secret", "ConfigMap"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(name), meta.RESTScopeNamespace)
	}
	options := Options{Mapper: mapper, HTTPClient: http.DefaultClient, Linger: -1, Primary: []client.Object{&corev1.ConfigMap{}}}
	for _, c := range change {
		c(&options)
	}
	c, err := New(&rest.Config{Host: "http://localhost"}, options)
	require.NoError(t, err)
	c.started.Store(true)
	c.setRunning(func(func(context.Context)) context.CancelFunc { return func() {} })
	f := &fake{T: t, Cache: c}
	f.secrets, f.configMaps = c.kind(kindKey{gvk: corev1.SchemeGroupVersion.WithKind("Secret")}), c.kind(kindKey{gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap")})
	f.handler, err = f.secrets.objects.handlers.add(f, 0, f.secrets.synced)
	require.NoError(t, err)
	for _, k := range c.allKinds() {
		k.run()
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Cache.Start(t.Context()) }()
	require.True(t, c.Cache.WaitForCacheSync(t.Context()))
	t.Cleanup(func() {
		for _, k := range c.allKinds() {
			k.objects.handlers.close()
		}
		require.NoError(t, <-ended)
	})
	return f
}

func ownerOf(name string) OwnerRef {
	return OwnerRef{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Key: types.NamespacedName{Namespace: "owners", Name: name}, UID: types.UID(name)}
}

// claim adds a claim for Secrets and returns the feed of the scope, if there is one.
func (f *fake) claim(owner string, scope Scope) *feed {
	f.Helper()
	f.Ensure(f.Context(), ownerOf(owner), Claim{Kind: &corev1.Secret{}, Scope: scope})
	return f.feed(scope)
}

func (f *fake) feed(scope Scope) *feed {
	f.secrets.mu.RLock()
	defer f.secrets.mu.RUnlock()
	if n := f.secrets.nodeOf(scope, false); n != nil {
		return n.feed
	}
	return nil
}

// opens reports that the server accepts a watch, which begins with a list if initial is true.
func (f *feed) opens(initial bool) *watch.RaceFreeFakeWatcher {
	options := metav1.ListOptions{TimeoutSeconds: ptr.To(int64(600))}
	if initial {
		options.SendInitialEvents = ptr.To(true)
	}
	opened := watch.NewRaceFreeFake()
	f.kind.opened(f, f.newStream(), opened, options)
	return opened
}

// lists reports the list with which a watch begins. The methods below report events.
func (f *feed) lists(t *testing.T, version string, objects ...client.Object) {
	t.Helper()
	if !f.stream.isOpen() {
		f.opens(true)
	}
	list := make([]any, 0, len(objects))
	for _, obj := range objects {
		list = append(list, obj)
	}
	require.NoError(t, f.kind.listed(f, list, version))
}

func (f *feed) sees(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, f.kind.observe(f, obj, false))
}

func (f *feed) seesDeleted(t *testing.T, obj client.Object) {
	t.Helper()
	require.NoError(t, f.kind.observe(f, obj, true))
}

// denied reports that the API server refuses the watch.
func (f *feed) denied() {
	f.kind.ended(f, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil))
}

// fails reports that a request fails, and returns the delay before the next request.
func (f *feed) fails() time.Duration {
	pause, _ := f.kind.ended(f, apierrors.NewInternalError(io.ErrUnexpectedEOF))
	return pause
}

func (f *fake) isServing(feed *feed) bool {
	f.secrets.mu.RLock()
	defer f.secrets.mu.RUnlock()
	return feed.serving
}

// secretAt returns the Secret "x/<name>" at a version. Secrets with different UIDs are different objects.
func secretAt(name, version string, uid ...types.UID) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, ResourceVersion: version, UID: append(uid, types.UID(name))[0]}}
}

// received returns the events that the handler of Secrets has received, such as "add a 10".
func (f *fake) received() []string {
	done := make(chan struct{})
	f.handler.add(notification{current: &barrier{Secret: secretAt("", ""), reached: done}})
	<-done
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.recorded...)
}

// barrier is an event that is delivered after all others.
type barrier struct {
	*corev1.Secret
	reached chan struct{}
}

func (f *fake) record(what string, obj any) {
	if b, ok := obj.(*barrier); ok {
		close(b.reached)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o := obj.(client.Object)
	f.recorded = append(f.recorded, what+" "+o.GetName()+" "+o.GetResourceVersion())
}

func (f *fake) OnAdd(obj any, _ bool) { f.record("add", obj) }
func (f *fake) OnUpdate(_, obj any)   { f.record("update", obj) }
func (f *fake) OnDelete(obj any)      { f.record("delete", obj) }

var _ toolscache.ResourceEventHandler = (*fake)(nil)
