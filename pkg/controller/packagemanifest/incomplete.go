package packagemanifest

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of the backoff between attempts to send a catalog with all of its descriptions.
const firstAgain, lastAgain = time.Minute, time.Hour

// incomplete is a version of a catalog that was sent without some of its descriptions, because reading them took too long. It is sent
// again, even if it does not change.
type incomplete struct {
	digest string
	pause  time.Duration
	next   time.Time
}

// noteIncomplete records whether the version of a catalog that was sent has to be sent again.
func (r *Reconciler) noteIncomplete(key types.NamespacedName, digest string, isIncomplete bool) {
	if !isIncomplete {
		r.incomplete.Delete(key)
		return
	}
	r.incomplete.Change(key, func(i *incomplete) {
		if i.digest != digest {
			*i = incomplete{digest: digest}
		}
		i.pause = min(max(2*i.pause, firstAgain), lastAgain)
		i.next = time.Now().Add(i.pause)
	})
}

// untilAgain returns how long to wait until a version of a catalog, which package-server has, is sent again. again is false if
// that need not be.
func (r *Reconciler) untilAgain(key types.NamespacedName, digest string) (wait time.Duration, again bool) {
	i := r.incomplete.Get(key)
	if i.digest != digest {
		return 0, false
	}
	return max(time.Until(i.next), 0), true
}
