// Package apply writes one object by server-side apply, with a field manager of the install's
// lineage and never by force, and refuses to touch what is not ours (security model, rule 7).
//
// The client decides whose authority is used; this package has none of its own.
package apply
