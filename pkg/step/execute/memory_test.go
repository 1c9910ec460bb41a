package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// fat is a reader of objects with many managed fields, which anyone may write.
type fat struct{ client.Reader }

func (fat) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	fields := strings.TrimSuffix(strings.Repeat(`{"":{}},`, 40_000), ",")
	return obj.(json.Unmarshaler).UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[%s]}`, fields))
}

func TestTheMemoryOfLiveObjectsIsLimited(t *testing.T) {
	one := Executor{}
	read := func(e *Executor) error {
		_, err := apply.LiveWithin(t.Context(), fat{}, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}, e.memory.take)
		return err
	}
	require.NoError(t, read(&one))
	require.False(t, one.memory.heavy)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = read(&one)
	}
	require.ErrorContains(t, err, "the existing objects of the install would need more than 256 MiB of memory")
	require.True(t, one.memory.heavy)
	_, err = one.gather(t.Context(), nil, nil)
	require.NoError(t, err)
	require.NoError(t, read(&one), "each Gather counts again, because an install reads its objects several times")

	require.True(t, heavy.TryAcquire(maxHeavy-1), "the other places")
	other := Executor{}
	require.NoError(t, read(&other), "each install may read some objects")
	require.ErrorIs(t, read(&other), errHeavy)
	one.Close()
	other.Close()
	require.NoError(t, read(&other))
	require.NoError(t, read(&other))
	other.Close()
	heavy.Release(maxHeavy - 1)
	require.True(t, heavy.TryAcquire(maxHeavy), "all places are free")
	heavy.Release(maxHeavy)
}
