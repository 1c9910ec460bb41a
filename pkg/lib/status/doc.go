// Package status updates statuses for controllers: it compares with the object that was read, writes nothing if nothing
// changed, and otherwise sends one merge patch with an optimistic lock (condition lists of the v0 kinds are not keyed,
// so that a patch without a lock could revert another writer's change).
//
// It also makes text suitable for a status: valid UTF-8, no control characters, limited length.
package status
