package sat

import (
	"github.com/go-air/gini/inter"
)

// Budget bounds what a Problem may cost. Spend returns an error once the budget is used up, or the caller has lost
// interest: then the search ends with that error, which is the same for every later Spend.
type Budget interface {
	Spend(cost int) error
}

// Costs, in the unit of a Budget: one is about 50 nanoseconds: a look at one candidate, for instance.
const (
	// costOfTick is that of what the solver does between two moments at which it can be stopped: it propagates
	// 20,000 literals (github.com/go-air/gini, PropTick), and learns the clauses that follow from them.
	costOfTick = 200_000
	// costOfStart is that of asking the solver at all.
	costOfStart = 100
)

// solve runs the solver from tick to tick for as long as the budget lasts. What it answers does not depend on the
// ticks. The cost is counted and not timed, so that it is the same on every machine, up to the last ticks of a solver
// that finds nobody waiting when it offers to pause.
func (e *encoding) solve() (int, error) {
	if err := e.budget.Spend(costOfStart); err != nil {
		return 0, err
	}
	running := e.g.GoSolve()
	for {
		result, paused := running.Pause()
		if !paused {
			return result, nil
		}
		err := e.budget.Spend(costOfTick)
		running.Unpause()
		if err != nil {
			return stop(running, err)
		}
	}
}

// stop ends a solver. That it found something in the meantime does not count.
func stop(running inter.Solve, why error) (int, error) {
	running.Stop()
	return 0, why
}
