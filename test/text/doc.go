// Package text checks that all text for people goes through package message: it type-checks Remit's packages and reports each
// message of a condition or status, note of an Event, and write to standard output that does not.
package text
