package scopedcache

import "time"

// Shorten divides the time for which the cache waits for the API server by a factor.
func (o *Options) Shorten(factor time.Duration) { o.limits = defaultLimits().shortened(factor) }
