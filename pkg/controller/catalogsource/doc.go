// Package catalogsource makes the content of every CatalogSource reachable and publishes it in a
// catalog.Store. It is the only writer of the status of CatalogSources and of the Store.
//
//	source                         content                          woken by
//	grpc, spec.image in a mapping  a directory, in process          fsnotify
//	grpc, spec.image               the image, pulled in process     its poll interval, or a pause after a failure
//	 ..., that is a registry       a Pod of it, over gRPC           a watch on its Pods, and the connection's state
//	grpc, spec.address             a registry, over gRPC            the connection's state
//	configmap, internal            a ConfigMap of the namespace     a watch on its metadata
//
// A catalog that turns malformed keeps its last good content, and its status says so. One sick
// catalog costs the others nothing: a registry or image is read by a goroutine of its own, a directory under
// a lock of its own. Pods are run in the global catalog namespace only (docs/adr/0017);
// a user's ConfigMap is never written to.
//
// CatalogSources are read as unstructured objects: the typed one panics on `updateStrategy: {}`
// (operator-framework/api v0.45.0), and any author of one could end the program.
//
// The catalog program's controller list calls New and SetupWithManager.
package catalogsource
