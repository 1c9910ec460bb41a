// Package store keeps the packages of catalogs for the program package-server: an index in memory, and the records on disk,
// one file per catalog. A changed catalog replaces the file; unchanged packages keep their versions, so that watches report
// only changes. The data on disk is deleted when the program ends: the catalog program sends it again.
package store
