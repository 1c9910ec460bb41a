package resolver

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// minWork is the minimum time for which a resolution works between two pauses. More frequent pauses would cost more time than
// they free for other work.
const minWork = 5 * time.Millisecond

// pacer makes a resolution wait for a fraction of the time. The time between two pauses counts as work even if the
// resolution did not get the CPU, so a resolution waits longer on a busy machine.
type pacer struct {
	clock clock.Clock
	idle  float64
	// resumed is the end of the last pause.
	resumed time.Time
}

func newPacer(c clock.Clock, idle float64) pacer {
	return pacer{clock: c, idle: idle, resumed: c.Now()}
}

// pause waits until the pause that is due has ended, or until the context is canceled.
func (p *pacer) pause(ctx context.Context) {
	worked := p.clock.Since(p.resumed)
	if p.idle <= 0 || worked < minWork {
		return
	}
	timer := p.clock.NewTimer(time.Duration(float64(worked) * p.idle / (1 - p.idle)))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
	p.resumed = p.clock.Now()
}
