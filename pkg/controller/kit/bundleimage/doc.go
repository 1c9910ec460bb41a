// Package bundleimage reads the images of the bundles in catalogs, when their content is requested. It adds the content
// to the Reader of a catalog.Snapshot, and stores it on disk.
//
// The controllers of catalogs use it. They provide the credentials and decide when a failed attempt is retried.
package bundleimage
