package scopedcache

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// outdatedMapper is a RESTMapper that finds out that a kind is no longer served only when it is reset.
type outdatedMapper struct {
	meta.RESTMapper
	err  error
	lost bool
	// requests is the number of requests that the mapper would have sent.
	requests int
}

func (m *outdatedMapper) Reset() { m.lost = true }

func (m *outdatedMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.lost {
		m.requests++
		return nil, m.err
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// notFound is the API server's response for a resource that it does not serve.
var notFound = apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "secrets"}, "", "page not found", 0, true)

// noMatch is a mapper's error that wraps such a response.
type noMatch struct{ meta.NoKindMatchError }

func (e *noMatch) Unwrap() error        { return notFound }
func (e *noMatch) Is(target error) bool { return e.NoKindMatchError.Is(target) }

// NotFound means that an object does not exist; only a watch can show that.
func TestAnAbsentKindIsNotNotFound(t *testing.T) {
	t.Parallel()
	for name, mapped := range map[string]error{"as usual": &meta.NoKindMatchError{}, "with the server's response": &noMatch{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(o *Options) { o.Mapper = &outdatedMapper{RESTMapper: o.Mapper, err: mapped} })
			feed := f.claim("o", Namespace("x"))
			feed.lists(t, "10", secretAt("a", "10"))
			for _, ended := range []error{notFound, mapped} { // first the request fails, then the mapper before a request is sent
				f.secrets.ended(feed, ended)
				err := f.Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "a"}, &corev1.Secret{})
				var absent *AbsentError
				require.ErrorAs(t, err, &absent)
				require.True(t, meta.IsNoMatchError(err), "%v", err)
				require.False(t, apierrors.IsNotFound(err), "%v", err)
			}
		})
	}
}

func TestARemovedKindIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	mapper := &outdatedMapper{err: &meta.NoKindMatchError{}}
	f := newFake(t, func(o *Options) {
		mapper.RESTMapper, o.Mapper = o.Mapper, mapper
		o.Retry.Initial = time.Minute
	})
	for i := range 200 {
		f.secrets.ended(f.claim("o", Object("x", fmt.Sprint("s", i))), notFound)
	}
	for _, status := range f.Status(ownerOf("o")) {
		require.Equal(t, Absent, status.State)
	}
	require.Equal(t, 1, mapper.requests)
}
