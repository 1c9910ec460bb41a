package scopedcache

import (
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// mapper is a RESTMapper that can be told that it is out of date.
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

// Reset lets the mapper ask the API server again. Kinds that are no longer served are unknown afterwards.
func (m *mapper) Reset() {
	if resettable, ok := m.get().(meta.ResettableRESTMapper); ok {
		resettable.Reset()
		return
	}
	// controller-runtime's mapper learns new kinds, but never forgets one.
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
