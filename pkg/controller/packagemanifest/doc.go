// Package packagemanifest sends the packages of all catalogs from the catalog.Store to the program package-server, through
// the kube-apiserver, as the controller identity (docs/adr/0060).
//
// While the APIService is available, the controller runs a session: it lists the catalogs that package-server has, sends
// those that differ, and keeps a watch open that ends when package-server stops. Without package-server, the controller
// sends no requests.
//
// Package controller calls New and SetupWithManager for the catalog program.
package packagemanifest
