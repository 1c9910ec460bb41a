package kit

import (
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// SettleTime is how long a status that only shows the progress of an install is delayed, because most installs finish sooner.
	SettleTime = 2 * time.Second
	// maxSettleTime is the longest delay: while many operators are being installed, each install takes longer. fewInstalls is the
	// number of namespaces that do not increase the delay, and perInstall is what each other namespace adds.
	maxSettleTime = 10 * time.Second
	fewInstalls   = 10
	perInstall    = 50 * time.Millisecond
)

// Settling determines how long statuses that will soon be replaced are delayed. The delay grows with the number of namespaces in
// which operators are being installed. Each namespace counts once, so one tenant hardly delays the statuses of others.
type Settling struct {
	active *cache.Expiring
}

// NewSettling returns a Settling that has counted no namespace yet.
func NewSettling() *Settling { return &Settling{active: cache.NewExpiring()} }

// Time counts a namespace in which an operator is being installed, and returns how long its statuses are delayed: a duration from
// SettleTime to 10 seconds.
func (s *Settling) Time(namespace string) time.Duration {
	s.active.Set(namespace, nil, maxSettleTime)
	others := max(s.active.Len()-fewInstalls, 0)
	return min(SettleTime+time.Duration(others)*perInstall, maxSettleTime)
}
