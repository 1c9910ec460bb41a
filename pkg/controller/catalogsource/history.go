package catalogsource

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog/server"
)

// history is what a CatalogSource's Pods went through since this program started. One worker at a time uses it.
type history struct {
	// made is when the last Pod to serve was made, pause how long after that the next one may be.
	made  time.Time
	pause time.Duration
	// failed is the hash of the update Pod that was given up last, why what was wrong with it.
	failed, why string
	// polled is when the image's registry had been asked then: another try comes with another poll; or, where
	// there are none, at until.
	polled *metav1.Time
	until  time.Time
}

// hold says which Pods are not to be made now, and when to look again on that account.
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

// gaveUp remembers an update Pod of the hash that is wanted.
func (h *history) gaveUp(pod *corev1.Pod, hash string, polled *metav1.Time, now time.Time) {
	if pod == nil {
		return
	}
	h.failed, h.why = hash, "update Pod "+pod.Name+" failed: "+server.Trouble(pod)+"; another is tried "
	if h.polled, h.until = polled, now.Add(lastReload); polled != nil {
		h.why += "at the next poll"
	} else {
		h.why += "in " + lastReload.String()
	}
}

// created remembers a Pod that is to serve. The first one in the place of one that did not last is made at once, each further one
// after a pause that doubles.
func (h *history) created(pod *corev1.Pod, now time.Time) {
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

// update says what became of the last update Pod, where it was the one that is wanted.
func (h *history) update(hash string) string {
	if h.failed != hash {
		return ""
	}
	return h.why
}
