package installplan

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// phase is one part of a run. It ends in one of three ways: the next phase follows, the run waits (no error; a watch
// wakes the plan), or it fails.
type phase func(ctx context.Context, s *run) (outcome, error)

// outcome is the result of a phase that did not fail. The zero value continues with the next phase.
type outcome struct {
	stopped bool
	// reason is a CamelCase reason for waiting; "" if the run is over.
	reason operatorsv1alpha1.InstallPlanConditionReason
	// message describes for users what the run waits for.
	message string
}

func proceed() outcome { return outcome{} }

// stop ends the run: there is nothing left to do for now.
func stop() outcome { return outcome{stopped: true} }

func wait(reason operatorsv1alpha1.InstallPlanConditionReason, message string) outcome {
	return outcome{stopped: true, reason: reason, message: message}
}

// runPhases runs the phases in order, until one waits, ends the run or fails.
func (s *run) runPhases(ctx context.Context, phases ...phase) (out outcome, err error) {
	for i := 0; i < len(phases) && err == nil && !out.stopped; i++ {
		out, err = phases[i](ctx, s)
	}
	return out, err
}
