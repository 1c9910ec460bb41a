package keyed

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMap(t *testing.T) {
	var m Map[string, int]
	all := func() map[string]int {
		out := map[string]int{}
		m.Each(func(key string, value int) { out[key] = value })
		return out
	}
	require.Zero(t, m.Get("a"))
	require.Zero(t, m.Delete("a"))
	require.Empty(t, all())
	m.Set("a", 1)
	m.Change("b", func(value *int) { *value += 2 })
	m.Change("b", func(value *int) { *value += 2 })
	require.Equal(t, map[string]int{"a": 1, "b": 4}, all())
	require.Equal(t, 4, m.Delete("b"))
	require.Equal(t, map[string]int{"a": 1}, all())
}

func TestAMapIsSafeForConcurrentUse(t *testing.T) {
	var m Map[int, int]
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { m.Change(0, func(value *int) { *value++ }) })
	}
	group.Wait()
	require.Equal(t, 100, m.Get(0))
}
