package scopedcache

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper is a RESTMapper that can be reset.
type mapper struct {
	config *rest.Config
	http   *http.Client
	used   atomic.Pointer[meta.RESTMapper]
}

func newMapper(config *rest.Config, httpClient *http.Client, first meta.RESTMapper) *mapper {
	m := &mapper{config: config, http: httpClient}
	m.used.Store(&first)
	return m
}

// Reset makes the mapper query the API server again and drop kinds that are no longer served.
func (m *mapper) Reset() {
	if resettable, ok := m.get().(meta.ResettableRESTMapper); ok {
		resettable.Reset()
		return
	}
	// controller-runtime's mapper adds new kinds, but never removes any.
	if fresh, err := apiutil.NewDynamicRESTMapper(m.config, m.http); err == nil {
		m.used.Store(&fresh)
	}
}

func (m *mapper) get() meta.RESTMapper { return *m.used.Load() }

func (m *mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.get().KindFor(resource)
}

func (m *mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.get().KindsFor(resource)
}

func (m *mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.get().ResourceFor(input)
}

func (m *mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.get().ResourcesFor(input)
}

func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.get().RESTMapping(kind, versions...)
}

func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.get().RESTMappings(kind, versions...)
}

func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.get().ResourceSingularizer(resource)
}

var _ meta.ResettableRESTMapper = (*mapper)(nil)

// discovery determines for all feeds of a kind whether the API server serves the kind. If it does not, for example because
// the CustomResourceDefinition was deleted, it sends only as many requests as for a single feed.
type discovery struct {
	mu sync.Mutex
	// at is the time of the last request for a kind that was missing, and err is the result.
	at  time.Time
	err error
}

// find returns the kind's mapping. missing is true if the API server has responded that it does not serve the kind.
func (d *discovery) find(k *kind, missing bool) (*meta.RESTMapping, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mapper := k.cache.options.Mapper
	recent := time.Since(d.at) < min(time.Second, k.cache.options.Retry.Initial)/2 // a single feed never retries earlier
	switch {
	case recent && d.err != nil:
		return nil, d.err
	case missing && !recent:
		meta.MaybeResetRESTMapper(mapper)
	}
	mapping, err := mapper.RESTMapping(k.key.gvk.GroupKind(), k.key.gvk.Version)
	if d.err = nil; meta.IsNoMatchError(err) {
		d.err = err
	}
	if missing && !recent || d.err != nil {
		d.at = time.Now()
	}
	return mapping, err
}
