package scopedcache

import "time"

// limits contains the maximum times for which the cache waits for the API server. Tests shorten them.
type limits struct {
	// silence is the maximum pause while a watch receives its initial list. API servers end the list with a bookmark, which may
	// never be received: the stream may stall, the server may withhold the bookmark, or a proxy may drop it. In these cases,
	// the reflector only logs a message, after the same time.
	silence time.Duration
	// request is the maximum duration of a request. It is longer than the default limit of API servers, which is one
	// minute.
	request time.Duration
	// discovery is the maximum duration of a discovery request, during which all other discovery requests wait.
	discovery time.Duration
	// answer is how long a feed remains Live without a watch. It includes the pause before the watch is requested again and the
	// time until the API server responds.
	answer time.Duration
	// slot is the maximum time for which a list counts toward Options.Concurrency, so that a list without a response delays
	// others only briefly.
	slot time.Duration
}

func defaultLimits() limits {
	return limits{silence: 10 * time.Second, request: 70 * time.Second, discovery: 10 * time.Second, answer: 3 * time.Second, slot: 5 * time.Second}
}

// shortened divides the limits by a factor.
func (l limits) shortened(factor time.Duration) limits {
	return limits{silence: l.silence / factor, request: l.request / factor, discovery: l.discovery / factor, answer: l.answer / factor, slot: l.slot / factor}
}
