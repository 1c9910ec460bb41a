package installplan

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// phase is one part of a run. The run continues with the next phase, waits without an error until a watch wakes the
// plan, or fails.
type phase func(ctx context.Context, s *run) (outcome, error)

// outcome is the result of a phase that did not fail. The zero value continues with the next phase.
type outcome struct {
	stopped bool
	// reason is a CamelCase reason for waiting, or "" if the run does not wait.
	reason operatorsv1alpha1.InstallPlanConditionReason
	// message describes for users what the run waits for.
	message message.Text
}

func proceed() outcome { return outcome{} }

// stop ends the run because there is nothing to do for now.
func stop() outcome { return outcome{stopped: true} }

func wait(reason operatorsv1alpha1.InstallPlanConditionReason, text message.Text) outcome {
	return outcome{stopped: true, reason: reason, message: text}
}

// runPhases runs the phases in order until one of them stops the run or fails.
func (s *run) runPhases(ctx context.Context, phases ...phase) (out outcome, err error) {
	for i := 0; i < len(phases) && err == nil && !out.stopped; i++ {
		out, err = phases[i](ctx, s)
	}
	return out, err
}
