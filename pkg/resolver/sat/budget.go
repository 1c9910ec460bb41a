package sat

// Budget bounds the cost of a Problem. Spend returns an error if the budget is exhausted or the caller's context is
// canceled. The search then ends with this error, and every later call to Spend returns it as well.
type Budget interface {
	Spend(cost int) error
}

// Costs in the unit of a Budget. One unit is about 50 nanoseconds, such as the examination of one candidate.
const (
	// costOfTick is the cost of the solver's work between two points at which it can be stopped: it propagates 20,000
	// literals (github.com/go-air/gini, PropTick) and learns the clauses that follow from them.
	costOfTick = 200_000
	// costOfStart is the cost of each call to the solver.
	costOfStart = 100
)

// solve runs the solver from tick to tick while the budget lasts. Ticks do not affect the result. The cost is counted
// rather than timed, so it is the same on every machine, with one exception: a tick that the solver passes before solve
// calls Pause is not counted.
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
			running.Stop() // a result that the solver has found in the meantime is discarded
			return 0, err
		}
	}
}
