package excess

import (
	"time"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// DefaultGrace is the default time between the report that an install exceeds its account and the removal.
const DefaultGrace = 10 * time.Minute

// observation is the minimum time for which this process observes an excess before anything is removed, even if a
// status states that the grace period began earlier: any user who can write the status may have written that, and after
// a restart, a change to RBAC may still be in progress.
const observation = time.Minute

// Timers contain the end of the grace period of each install that exceeds its account. The zero value is ready to use.
type Timers[K comparable] struct {
	ends, pauses keyed.Map[K, time.Time]
	// attempts is the number of attempts that have removed nothing.
	attempts keyed.Map[K, int]
}

// Deadline returns the end of an install's grace period, which begins when its status first reported the excess, or now
// if reported is zero. What the status reports counts only when this process first observes the excess. Therefore, a
// user who writes the status cannot make anything be removed before this process has observed the excess for some time,
// and can delay the removal only until the end of a grace period that begins with the process.
func (t *Timers[K]) Deadline(install K, now, reported time.Time, grace time.Duration) time.Time {
	return t.ends.Change(install, func(end *time.Time) {
		if !end.IsZero() {
			return
		}
		*end = now.Add(grace)
		if !reported.IsZero() && reported.Before(now) {
			*end = latest(reported.Add(grace), now.Add(min(grace, observation)))
		}
	})
}

// Stop ends the grace period of an install that no longer exceeds its account, or whose excess is kept.
func (t *Timers[K]) Stop(install K) {
	t.ends.Delete(install)
	t.pauses.Delete(install)
	t.attempts.Delete(install)
}

// firstPause is the minimum time between the first two attempts that remove nothing, because each attempt sends requests for each
// object, and any event of the install could cause one. It doubles with each further attempt, up to lastPause: rules that others add to a
// ClusterRole can cause attempts for the operators of all its accounts.
const firstPause, lastPause = 10 * time.Second, 2 * time.Minute

// Pause records that an attempt has removed nothing, and returns the time until the next one.
func (t *Timers[K]) Pause(install K, now time.Time) time.Duration {
	n := t.attempts.Change(install, func(n *int) { *n++ })
	pause := min(firstPause<<min(n-1, 8), lastPause)
	t.pauses.Set(install, now.Add(pause))
	return pause
}

// Paused returns the time until the next attempt, or 0.
func (t *Timers[K]) Paused(install K, now time.Time) time.Duration {
	return max(0, t.pauses.Get(install).Sub(now))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
