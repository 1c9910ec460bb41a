package scopedcache

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// The number of dropped objects that are recorded is limited, except for owners of claims.
func TestDroppedObjectsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	objects := f.configMaps.objects
	forget := func(name string) {
		f.configMaps.mu.Lock()
		defer f.configMaps.mu.Unlock()
		objects.put(configMapAt(name, "10", types.UID(name)), false)
		objects.forget("owners/" + name)
	}
	f.claim("o", Object("x", "a"))
	forget("o")
	for i := range 3 * mostDropped {
		forget(fmt.Sprint("c", i))
	}
	require.LessOrEqual(t, len(objects.dropped), mostDropped)
	require.Contains(t, objects.dropped, "owners/o")
}
