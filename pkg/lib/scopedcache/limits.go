package scopedcache

import "time"

// limits are how long the cache waits for the API server. Tests shorten them.
type limits struct {
	// silence is how long nothing may arrive while a watch sends its initial list. API servers end the list with a bookmark, which
	// may never come: the stream may stall, the server may withhold it, or a proxy may drop it. The reflector itself only logs
	// that, after the same time.
	silence time.Duration
	// request is longer than an API server's default limit for requests, which is one minute.
	request time.Duration
	// discovery is how long the API server may take to answer a discovery request. Meanwhile, all other discoveries wait.
	discovery time.Duration
	// answer is how long a feed remains Live without a watch. It includes the pause before the watch is requested again and the
	// time until the server responds.
	answer time.Duration
	// slot is how long a list counts toward Options.Concurrency at most, so that a list to which the server does not respond
	// delays others only briefly.
	slot time.Duration
}

func defaultLimits() limits {
	return limits{silence: 10 * time.Second, request: 70 * time.Second, discovery: 10 * time.Second, answer: 3 * time.Second, slot: 5 * time.Second}
}

// shortened divides the limits by a factor.
func (l limits) shortened(factor time.Duration) limits {
	return limits{silence: l.silence / factor, request: l.request / factor, discovery: l.discovery / factor, answer: l.answer / factor, slot: l.slot / factor}
}
