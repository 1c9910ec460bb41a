package catalogsource

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog/server"
)

// history records what has happened to a CatalogSource's Pods since the program started. It is not safe for concurrent use.
type history struct {
	// made is the creation time of the last serving Pod; pause is the minimum delay before the next one.
	made  time.Time
	pause time.Duration
	// failed is the hash of the last failed update Pod, and why describes the failure.
	failed, why string
	// polled is the time of the last poll before the failure; another attempt is made after the next poll. Without polls,
	// until is the time of the next attempt.
	polled *metav1.Time
	until  time.Time
}

// hold reports which Pods must not be created now, and the delay after which to check again.
func (h *history) hold(hash string, polled *metav1.Time, now time.Time) (out server.Hold, again time.Duration) {
	if due := h.made.Add(h.pause); h.pause > 0 && now.Before(due) {
		out.Serving, again = true, due.Sub(now)
	}
	switch {
	case h.failed != hash:
	case polled != nil:
		out.Update = polled.Equal(h.polled)
	case now.Before(h.until):
		out.Update = true
		if wait := h.until.Sub(now); again == 0 || wait < again {
			again = wait
		}
	}
	return out, again
}

// recordFailure records the failure of an update Pod with the desired hash. It does nothing if pod is nil.
func (h *history) recordFailure(pod *corev1.Pod, hash string, polled *metav1.Time, now time.Time) {
	if pod == nil {
		return
	}
	h.failed, h.why = hash, "update Pod "+pod.Name+" failed: "+server.Trouble(pod)+"; the next attempt is "
	if h.polled, h.until = polled, now.Add(lastReload); polled != nil {
		h.why += "at the next poll"
	} else {
		h.why += "in " + lastReload.String()
	}
}

// recordCreation records the creation of a serving Pod. It ignores nil and update Pods. The first replacement is
// created immediately, and later ones with exponential backoff.
func (h *history) recordCreation(pod *corev1.Pod, now time.Time) {
	if pod == nil || server.IsUpdate(pod) {
		return
	}
	switch {
	case h.made.IsZero() || now.Sub(h.made) >= goodRun:
		h.pause = 0
	case h.pause == 0:
		h.pause = firstReload
	default:
		h.pause = min(2*h.pause, lastReload)
	}
	h.made = now
}

// update describes the failure of the last failed update Pod, or returns "" if that Pod does not have this hash.
func (h *history) update(hash string) string {
	if h.failed != hash {
		return ""
	}
	return h.why
}
