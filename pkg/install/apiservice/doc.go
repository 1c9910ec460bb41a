// Package apiservice renders the APIs that a ClusterServiceVersion owns as APIServices and the bindings that an API
// server needs to authenticate and authorize callers (contract 1.12).
//
// [Validate] rejects APIs that no operator may serve. [Desired] is pure. [Taken] reports whether another owner
// already serves an API, and [Status] whether an APIService is available.
package apiservice
