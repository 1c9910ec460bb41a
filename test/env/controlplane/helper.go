package controlplane

import (
	"context"
	"sync"
)

// TB is what the helpers need of a testing.TB. The package does not import testing, because the CLI uses it too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// shared is this process's share in the shared control plane. It is kept until the process ends and not until a test
// ends, because the next test would join again.
var shared struct {
	sync.Mutex
	instance *Instance
}

// Shared returns the shared control plane, which others use at the same time: see the package documentation.
func Shared(tb TB) *Instance {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.instance == nil {
		instance, err := Join(context.Background(), Options{})
		if err != nil {
			tb.Fatalf("join control plane: %v", err)
			return nil
		}
		shared.instance = instance
	}
	return shared.instance
}

// Start returns a control plane of the test's own, which is stopped when the test ends.
func Start(tb TB) *Instance {
	tb.Helper()
	instance, err := Launch(context.Background(), Options{})
	if err != nil {
		tb.Fatalf("start control plane: %v", err)
		return nil
	}
	tb.Cleanup(func() {
		if err := instance.Stop(); err != nil {
			tb.Fatalf("stop control plane: %v", err)
		}
	})
	return instance
}
