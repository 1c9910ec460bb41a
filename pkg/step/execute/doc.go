// Package execute applies the steps of a plan. It has only the permissions of the clients that the caller passes.
// Everything is read and checked for collisions before the first write. Each write is a server-side apply without force,
// except the patch that restores the conversion of a CustomResourceDefinition. Executing a step twice changes nothing.
package execute
