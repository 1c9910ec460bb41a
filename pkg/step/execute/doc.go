// Package execute applies the steps of a plan. It has only the permissions of the clients that the caller passes.
// Everything is read and checked for collisions before the first write, each write is a server-side apply without
// force, and executing a step twice changes nothing.
package execute
