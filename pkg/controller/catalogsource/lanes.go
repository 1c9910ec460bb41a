package catalogsource

import (
	"context"
	"sync"
	"time"
)

const (
	// parseSlice is how long a catalog is parsed while others wait, and parseGrace how long its current document may then take.
	parseSlice, parseGrace = 2 * time.Second, time.Minute
)

// newParseLanes parses one tenant catalog and one global catalog at a time.
func newParseLanes(global string) *lanes {
	one := func() *turns { return &turns{slots: 1, share: 1, slice: parseSlice, grace: parseGrace} }
	return &lanes{reserved: global, global: one(), tenants: one()}
}

// yieldTogether is like yield for several goroutines that share a turn: all of them wait.
func (w *turn) yieldTogether() func(context.Context) error {
	var mu sync.Mutex
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return w.yield(ctx)
	}
}

// lanes contains separate turns for tenants and for the global catalog namespace, so that neither waits for the other.
type lanes struct {
	// reserved is the global catalog namespace.
	reserved        string
	global, tenants *turns
}

func (l *lanes) of(namespace string) *turns {
	if namespace == l.reserved {
		return l.global
	}
	return l.tenants
}
