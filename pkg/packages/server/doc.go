// Package server serves PackageManifests as an aggregated API (packages.operators.coreos.com/v1), with the generic API
// server of Kubernetes, which delegates authentication and authorization to the kube-apiserver.
//
//	packagemanifests            get, list and watch; without icons
//	packagemanifests/icon       the icon, with an ETag
//	packagecatalogs             list and watch: the catalog program sees which catalogs are served
//	packagecatalogs/content     PUT and DELETE: the catalog program sends catalogs
//	packagecatalogs/complete    PUT: the catalog program has sent all catalogs
//
// A request in a namespace returns the packages of the namespace's CatalogSources and of the global CatalogSources. Resource
// versions increase across restarts, so that clients of an earlier process are told to list again.
//
// Requests are counted by client before they wait for the kube-apiserver (clients.go), and health checks do not wait at all.
//
// cmd/package-server starts the server.
package server
