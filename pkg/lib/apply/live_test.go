package apply

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Anyone who may write an object can add managed fields to it, of which 1.3 MB take 65 MiB.
func TestALiveObjectIsDecodedOnlyIfItFitsIntoMemory(t *testing.T) {
	object := func(values int) []byte {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":[` + strings.Repeat("{},", values) + `{}]}`)
	}
	const perMiB = 1 << 20 / (2*jsonValue + 3*jsonBytes)
	var taken int64
	count := func(cost int64) error { taken += cost; return nil }
	require.NoError(t, (&limited{}).UnmarshalJSON(object(20*perMiB)))
	require.ErrorContains(t, (&limited{}).UnmarshalJSON(object(30*perMiB)), "at most 24 MiB are allowed")
	require.NoError(t, (&limited{take: count}).UnmarshalJSON(object(30*perMiB)), "the caller adds up what it takes")
	require.InDelta(t, 30<<20, taken, 1<<20)
	require.ErrorContains(t, (&limited{take: count}).UnmarshalJSON(object(70*perMiB)), "at most 64 MiB are allowed")
	refused := errors.New("refused")
	live := &limited{take: func(int64) error { return refused }}
	require.ErrorIs(t, live.UnmarshalJSON(object(1)), refused)
	require.Empty(t, live.Object)
}

// What other users add to the managed fields must not keep Remit from removing the rules of a Role.
func TestManagedFieldsNeedNotBeDecoded(t *testing.T) {
	text := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"uid":"u","managedFields":[` + strings.Repeat("{},", 200_000) + `{}]},"data":{"a":"b"}}`)
	require.ErrorAs(t, (&limited{}).UnmarshalJSON(text), new(*TooLargeError))
	live := &limited{omitsManagers: true}
	require.NoError(t, live.UnmarshalJSON(text))
	require.Equal(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"uid": "u"}, "data": map[string]any{"a": "b"}}, live.Object)
}

// jsonBytes and jsonValue are the estimates of package budget.
const jsonBytes, jsonValue = 4, 128
