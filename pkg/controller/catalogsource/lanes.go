package catalogsource

import (
	"context"
	"sync"
	"time"
)

const (
	// parseSlice is how long a catalog's files are read while others wait, parseGrace how long one document may take then.
	parseSlice, parseGrace = 2 * time.Second, time.Minute
)

// newParseLanes has catalogs read from files one at a time, and those of the global catalog namespace beside.
func newParseLanes(global string) *lanes {
	one := func() *turns { return &turns{slots: 1, share: 1, slice: parseSlice, grace: parseGrace} }
	return &lanes{reserved: global, global: one(), tenants: one()}
}

// yieldTogether is yield for several goroutines that share a turn: all of them wait.
func (w *turn) yieldTogether() func(context.Context) error {
	var mu sync.Mutex
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return w.yield(ctx)
	}
}

// lanes are turns for tenants' catalogs, and others in reserve for the global catalog namespace: tenants never wait for it, nor
// it for them.
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
