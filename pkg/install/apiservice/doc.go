// Package apiservice turns the APIs that a ClusterServiceVersion owns into APIServices and the bindings
// that an API server needs to ask who is calling and what they may do (contract 1.12).
//
// [Validate] refuses what no author may ask for. [Desired] is pure. [Taken] says whether somebody else serves
// an API already, and [Status] how an APIService fares.
package apiservice
