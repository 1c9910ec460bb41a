// Package fairqueue shares the workers of a controller between namespaces. It orders the items of a client-go work queue, which
// keeps what it does otherwise: one entry for each item, delays, rate limits, metrics, shutdown.
//
// Namespaces take turns, whatever the number of their items. The items of one namespace use at most Share workers at a time, and
// those of all namespaces that were slow lately at most half of the workers; an item that has taken long by now counts, too. The
// last quarter of the workers is for namespaces that were quick lately. So an item that takes long, for a reason that may not be
// known yet, delays its own namespace. Controllers take Options; nothing else calls this package.
package fairqueue
