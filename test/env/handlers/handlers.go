// Package handlers gives tests the event handlers of a controller's watches, so that a test can deliver events without an
// API server.
package handlers

import (
	"context"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// maxWatches is the maximum number of watches of one kind that a controller may have.
const maxWatches = 100

// Of runs the controllers that setup registers, until the test ends, and returns the handlers of their watches of one kind.
// The watches report no events.
func Of(t testing.TB, kind client.Object, scheme *runtime.Scheme, setup func(ctrl.Manager) error) <-chan toolscache.ResourceEventHandler {
	t.Helper()
	watches := &watches{kind: reflect.TypeOf(kind), handlers: make(chan toolscache.ResourceEventHandler, maxWatches)}
	watches.run(t, scheme, setup)
	return watches.handlers
}

// CountLists runs the controllers that setup registers, with a client, until the test ends. Their watches report objects that exist when
// the watches begin. At least one of them must be of a kind that a controller reconciles. CountLists returns how many lists the
// handlers have read when the first reconcile begins.
func CountLists(t testing.TB, scheme *runtime.Scheme, setup func(ctrl.Manager, client.Client) error, existing ...client.Object) int64 {
	t.Helper()
	var lists atomic.Int64
	reconciles := make(chan int64, 1)
	observe := func(ctx context.Context, n int64) {
		if controller.ReconcileIDFromContext(ctx) == "" {
			lists.Add(n)
			return
		}
		select {
		case reconciles <- lists.Load():
		default:
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			observe(ctx, 0)
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			observe(ctx, 1)
			return c.List(ctx, list, opts...)
		},
	}).Build()
	watches := &watches{existing: existing}
	watches.run(t, scheme, func(mgr ctrl.Manager) error { return setup(mgr, c) })
	select {
	case n := <-reconciles:
		return n
	case <-time.After(30 * time.Second):
		require.Fail(t, "no controller reconciles an object")
		return 0
	}
}

func (w *watches) run(t testing.TB, scheme *runtime.Scheme, setup func(ctrl.Manager) error) {
	t.Helper()
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return w, nil },
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return fake.NewClientBuilder().WithScheme(scheme).Build(), nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, setup(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// watches is a cache without objects, except those that its watches report at first. It sends the handlers that are added for one kind
// to a channel.
type watches struct {
	informertest.FakeInformers
	kind     reflect.Type
	handlers chan toolscache.ResourceEventHandler
	existing []client.Object
}

// GetInformer implements cache.Informers.
func (w *watches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	is := &informer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced)}
	if reflect.TypeOf(obj) == w.kind {
		is.handlers = w.handlers
	}
	for _, o := range w.existing {
		if reflect.TypeOf(obj) == reflect.TypeOf(o) {
			is.existing = append(is.existing, o)
		}
	}
	return is, nil
}

type informer struct {
	*controllertest.FakeInformer
	handlers chan<- toolscache.ResourceEventHandler // nil for other kinds
	existing []client.Object
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.handlers != nil {
		i.handlers <- handler
	}
	for _, obj := range i.existing {
		handler.OnAdd(obj, true)
	}
	return i.FakeInformer.AddEventHandlerWithOptions(handler, o)
}
