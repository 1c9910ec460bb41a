// Package apiservice renders APIServices for the APIs that a ClusterServiceVersion owns, and the bindings that an
// extension API server needs to authenticate and authorize callers (OLM v0 contract).
//
// [Validate] rejects APIs that no operator may serve. [Input.Desired] only renders an APIService; it does not access the
// cluster. [Taken] reports whether another owner already serves an API, and [Status] whether an APIService is available.
package apiservice
