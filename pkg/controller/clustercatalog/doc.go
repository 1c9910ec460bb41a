// Package clustercatalog reads the images of ClusterCatalogs, publishes their content in a catalog.Store and on the
// catalog server, and is the only writer of their status.
//
// The Reader of a published Snapshot also returns the content of bundles that the catalog names by image.
//
// An image is read in process: no Pod runs for it. It is read again when a poll finds another digest, or when the spec
// changes. Until the new content has been read, and if it is malformed, the last good content is served. The content of
// an unavailable ClusterCatalog is deleted.
//
// ClusterCatalogs are cluster-scoped, so their authors act on behalf of the whole cluster. As for CatalogSources in the global
// catalog namespace, no budgets apply to them, but the limits for a single catalog do.
package clustercatalog
