// Package catalogsource loads the content of every CatalogSource and publishes it in a catalog.Store. It is the only
// writer of the status of CatalogSources and of the Store.
//
//	source                         content                          woken by
//	grpc, spec.image in a mapping  a directory, in process          fsnotify
//	grpc, spec.image               the image, pulled in process     its poll interval, or a delay after a failure
//	 ..., which is a registry      a Pod that runs it, over gRPC    a watch on its Pods, and the connection's state
//	grpc, spec.address             a registry, over gRPC            the connection's state
//	configmap, internal            a ConfigMap in the namespace     a watch on its metadata
//
// If a catalog becomes malformed, its last good content is kept, and its status reports the problem. Catalogs do not affect each
// other: each registry or image has its own goroutine, and each directory its own lock. Registry Pods are created only in the
// global catalog namespace, as the controller identity, and in namespaces whose OperatorGroup uses the installation's default
// account, as that account (docs/adr/0017). Users' ConfigMaps are never written.
//
// CatalogSources are read as unstructured objects, because decoding `updateStrategy: {}` into the type panics
// (operator-framework/api v0.45.0), which would allow any author to crash the program.
//
// Package controller calls New and SetupWithManager for the catalog program.
package catalogsource
