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

// forgetful is a RESTMapper that notices only when it is reset that its server no longer serves a kind.
type forgetful struct {
	meta.RESTMapper
	err  error
	lost bool
	// asked counts how often the mapper would have asked the server.
	asked int
}

func (m *forgetful) Reset() { m.lost = true }

func (m *forgetful) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.lost {
		m.asked++
		return nil, m.err
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// notFound is a server's answer for a resource that it does not serve.
var notFound = apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: "secrets"}, "", "page not found", 0, true)

// noMatch is a mapper's error that wraps such an answer.
type noMatch struct{ meta.NoKindMatchError }

func (e *noMatch) Unwrap() error        { return notFound }
func (e *noMatch) Is(target error) bool { return e.NoKindMatchError.Is(target) }

// NotFound means that an object does not exist; only a watch can show that.
func TestAnAbsentKindIsNotNotFound(t *testing.T) {
	t.Parallel()
	for name, mapped := range map[string]error{"as usual": &meta.NoKindMatchError{}, "with the server's answer": &noMatch{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(o *Options) { o.Mapper = &forgetful{RESTMapper: o.Mapper, err: mapped} })
			feed := f.claim("o", Namespace("x"))
			feed.lists(t, "10", secretAt("a", "10"))
			for _, ended := range []error{notFound, mapped} { // the first request fails, then the mapper before one is sent
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

func TestAKindThatIsRemovedIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	mapper := &forgetful{err: &meta.NoKindMatchError{}}
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
	require.Equal(t, 1, mapper.asked)
}
