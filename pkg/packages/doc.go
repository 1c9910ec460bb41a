// Package packages describes the packages of catalogs as PackageManifests (packages.operators.coreos.com/v1), and defines
// the format in which the catalog program sends them to the program package-server (docs/adr/0060).
//
//	catalog.Snapshot --Describe--> Record per package --Encoder--> PUT --Decoder--> store --> server
//
// Everything in a catalog is untrusted: the size of each description, package and catalog is limited, and data that exceeds a
// limit is omitted. The subpackages store the records on disk (store) and serve them (server).
package packages
