// Package fairqueue shares the workers of a controller between namespaces. It orders the items of a client-go work
// queue, whose other behavior is unchanged: deduplication, delays, rate limits, metrics and shutdown.
//
// Namespaces take turns, regardless of how many items they have. The items of one namespace use at most Share workers
// at a time. Items of namespaces that were recently slow, together with items that have already run for a long time,
// use at most half of the workers. The last quarter of the workers is reserved for namespaces that were recently quick.
// After a slow item, a namespace cannot be quick for a long time: quick namespaces that become slow at the same time occupy
// all workers, but only rarely. Apart from that, a slow item delays only its own namespace, regardless of why it is slow.
// Controllers use Options; other code does not need this package.
package fairqueue
