package controlplane

import (
	"context"
	"sync"
)

// TB is the part of testing.TB that the helpers use. The package does not import testing, because the CLI uses it too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// shared is the control plane that this process has joined. It is released when the process ends, not when a test ends,
// because the next test would have to join again.
var shared struct {
	sync.Mutex
	instance *Instance
}

// Shared returns the shared control plane, which other tests use at the same time. See the package documentation.
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

// Start returns a private control plane, which is stopped when the test ends.
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
