// Package execute applies the steps of a plan under clients that the caller gives it: it has no
// authority of its own. Everything is read and checked for collisions before the first write, each
// write is a server-side apply without force, and doing a step twice changes nothing.
package execute
