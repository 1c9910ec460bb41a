// Package ownerutil makes and reads the marks that tie an object to the install that made it: the
// owner labels that tools know from OLM v0, a non-blocking owner reference where the API allows one,
// and Remit's lineage mark, within which a later version may change what an earlier one made
// (security model, rule 7).
package ownerutil
