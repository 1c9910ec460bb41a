// Package apply writes single objects by server-side apply, with a field manager for each lineage and never by force. It refuses
// to change objects that the install does not own (security model, rule 7).
//
// The client determines whose permissions are used; this package has none.
package apply
