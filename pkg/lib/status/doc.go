// Package status is the one way in which controllers change a status: compare with what was read,
// write nothing when nothing changed, and otherwise send one merge patch with an optimistic lock
// (condition lists on the v0 kinds are not keyed, so a blind patch could undo another writer).
//
// It also makes text fit for a status: valid UTF-8, no control characters, bounded length.
package status
