// Package pull reads the catalog in an image into a Snapshot. It uses temporary files on disk, unless the catalog is
// already stored there. It combines pkg/catalog/layer, which finds the files, pkg/catalog/fbc, which interprets them,
// and pkg/catalog/disk, which stores the result.
//
// The catalogsource and clustercatalog controllers call it. They decide when an image is read, and limit the resources
// for reading it through Options.
package pull
