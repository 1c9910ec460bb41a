// Package handlers gives tests the event handlers of a controller's watches, so that a test can deliver events without an
// API server.
package handlers

import (
	"context"
	"net/http"
	"reflect"
	"testing"

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
	"sigs.k8s.io/controller-runtime/pkg/config"
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
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return watches, nil },
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
	return watches.handlers
}

// watches is a cache without objects. It sends the handlers that are added for one kind to a channel.
type watches struct {
	informertest.FakeInformers
	kind     reflect.Type
	handlers chan toolscache.ResourceEventHandler
}

// GetInformer implements cache.Informers.
func (w *watches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	is := &informer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced)}
	if reflect.TypeOf(obj) == w.kind {
		is.handlers = w.handlers
	}
	return is, nil
}

type informer struct {
	*controllertest.FakeInformer
	handlers chan<- toolscache.ResourceEventHandler // nil for other kinds
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.handlers != nil {
		i.handlers <- handler
	}
	return i.FakeInformer.AddEventHandlerWithOptions(handler, o)
}
