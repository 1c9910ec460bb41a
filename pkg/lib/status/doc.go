// Package status updates the status of objects for controllers. It writes nothing if the status has not changed since
// the object was read. Otherwise, it sends one merge patch with an optimistic lock: condition lists of the v0 kinds
// are not keyed, so a patch without a lock could revert another writer's change.
//
// It also limits the length of texts (package message) for statuses and events.
package status
