package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/step"
)

// givenFat returns a client of a server on which every ConfigMap takes about 10 MiB of memory, for example because of its managed fields,
// which anyone may write, and the steps for such objects.
func givenFat(t *testing.T, n int) (client.Client, []step.Step) {
	t.Helper()
	return givenLive(t, n, 30_000)
}

// givenLive returns steps for n objects that exist with a number of values.
func givenLive(t *testing.T, n, values int) (client.Client, []step.Step) {
	t.Helper()
	fields := strings.TrimSuffix(strings.Repeat(`{"":{}},`, values), ",")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"ns"},"data":[%s]}`, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], fields)
	}))
	t.Cleanup(server.Close)
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gvk, meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Mapper: mapper})
	require.NoError(t, err)
	var steps []step.Step
	for i := range n {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		obj.SetNamespace("ns")
		obj.SetName(fmt.Sprint("a", i))
		steps = append(steps, step.Step{Object: obj})
	}
	return c, steps
}

func TestTheMemoryOfLiveObjectsIsLimited(t *testing.T) {
	t.Parallel()
	c, steps := givenFat(t, 20)
	refused := errors.New("no place is free")
	e := &Executor{Account: c, Place: func() error { return refused }}
	_, err := e.Gather(t.Context(), steps[:1])
	require.NoError(t, err, "each install may read some objects")
	_, err = e.Gather(t.Context(), steps[1:2])
	require.NoError(t, err, "each Gather counts again, because an install reads its objects several times")
	_, err = e.Gather(t.Context(), steps[:5])
	require.ErrorIs(t, err, refused)

	e.Place = func() error { return nil }
	states, err := e.Gather(t.Context(), steps[:3])
	require.NoError(t, err)
	require.Len(t, states, 3)
	_, err = e.Gather(t.Context(), steps)
	require.ErrorContains(t, err, "the existing objects of the install would need more than 48 MiB of memory")
}

// The csv controller has no places: it only needs to know whether the objects collide.
func TestObjectsThatCollideAreNotKeptInMemory(t *testing.T) {
	t.Parallel()
	c, steps := givenFat(t, 20)
	e := &Executor{Account: c}
	states, err := e.Occupied(t.Context(), steps, steps)
	require.NoError(t, err)
	require.Len(t, states, 20)
	for i, s := range states {
		require.Equal(t, steps[i], s.Step)
		require.ErrorContains(t, s.Problem, "exists")
		require.Nil(t, s.Live)
	}
}

// fat is a reader of objects of 10 MiB.
type fat struct{ client.Client }

func (fat) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return obj.(json.Unmarshaler).UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"ConfigMap","data":[` + strings.Repeat(`{"":{}},`, 30_000) + `{}]}`))
}

func TestObjectsThatCollideWaitForMemory(t *testing.T) {
	t.Parallel()
	_, steps := givenFat(t, 1)
	e := &Executor{Account: fat{}}
	room := semaphore.NewWeighted(FreeMemory)
	require.ErrorContains(t, e.occupant(t.Context(), steps[0], nil, room).problem, "exists")
	require.True(t, room.TryAcquire(FreeMemory), "what was taken is free again")
	room.Release(FreeMemory / 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, e.occupant(ctx, steps[0], nil, room).err, "wait for memory")
}
