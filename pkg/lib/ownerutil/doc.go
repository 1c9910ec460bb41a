// Package ownerutil creates and reads the marks that link an object to its install: the owner labels of OLM v0, a
// non-blocking owner reference where the API allows one, and the label with Remit's lineage mark. A later version can
// change the objects of an earlier version in the same lineage (security model, rule 7).
package ownerutil
