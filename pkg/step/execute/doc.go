// Package execute applies the steps of a plan with clients that the caller passes; it has no authority of its own.
// Everything is read and checked for collisions before the first write, each write is a server-side apply without
// force, and executing a step twice changes nothing.
package execute
