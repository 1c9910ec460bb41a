package clusterextension

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// withDeadline replaces the outcome of a rollout that takes longer than spec.progressDeadlineMinutes. The rollout
// continues: if its objects become available, it succeeds. The time is counted from the first write. After a restart of
// the program, it is counted from the beginning again, unless the deadline had already passed.
func (s *run) withDeadline(out outcome) outcome {
	limit := time.Duration(s.ext.Spec.ProgressDeadlineMinutes) * time.Minute
	if limit == 0 {
		return out
	}
	left := limit - s.Clock.Since(s.pass.begun)
	if left > 0 && !s.exceededBefore() {
		s.wakeAfter(left)
		return out
	}
	return stop(metav1.ConditionFalse, olmv1.ReasonProgressDeadlineExceeded,
		message.Sprintf("%s; the deadline of %d minutes has passed", out.message, s.ext.Spec.ProgressDeadlineMinutes))
}

// exceededBefore reports whether the saved status shows that the deadline of this rollout has passed.
func (s *run) exceededBefore() bool {
	was := s.savedCondition(olmv1.TypeProgressing)
	return was != nil && was.Reason == olmv1.ReasonProgressDeadlineExceeded && was.ObservedGeneration == s.ext.Generation &&
		strings.HasPrefix(was.Message, s.aboutRollout("")+": ")
}
