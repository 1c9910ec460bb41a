package scopedcache

import "time"

// Shorten divides the time limits for responses of the API server by a factor.
func (o *Options) Shorten(factor time.Duration) { o.limits = defaultLimits().shortened(factor) }
