// Package apply writes single objects by server-side apply. It uses a field manager for each lineage, never forces
// conflicts, and refuses to change objects that the install does not own (security model, rule 7).
//
// All requests use the permissions of the client that the caller passes.
package apply
