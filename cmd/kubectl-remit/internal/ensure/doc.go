// Package ensure creates and deletes RBAC objects for commands, as the user. It changes no object that differs from the one that
// the command creates, because such an object belongs to someone else.
package ensure
