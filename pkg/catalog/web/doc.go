// Package web serves the content of catalogs to other programs in the cluster, over HTTPS, as clients of OLM v1 expect:
//
//	/catalogs/<name>/api/v1/all     all objects of the file-based catalog, one JSON object per line
//	/catalogs/<name>/api/v1/metas   the objects that match the query parameters schema, package and name
//
// Responses have an ETag and a Last-Modified header, and are compressed for clients that accept gzip. Clients are not
// trusted: the numbers of connections and of concurrent responses are limited, and so are the duration and the memory of
// each response. Objects are copied from the disk in small pieces.
//
// Every client that reaches the server can read every catalog. Catalogs contain no secrets.
//
// The private key of the certificate exists only in memory. Certificates publishes the CA whenever it changes, so clients
// must read it again if a connection fails; see pkg/install/cert for how a certificate is replaced.
//
// The clustercatalog controller passes the content to the Server.
package web
