// Package ownerutil creates and reads the marks that link an object to its install: the owner labels of OLM v0, a
// non-blocking owner reference where the API allows one, and Remit's lineage mark, within which a later version can
// change objects of an earlier one (security model, rule 7).
package ownerutil
