// Package operator maintains Operators, the cluster-scoped objects that list the components of an installed operator (OLM v0
// contract, 1.14). An Operator is named <package>.<namespace>. It is only a report: nothing reads it, and it has no effect
// on what Remit may do.
//
// The components are the Subscriptions of a package in a namespace, and the objects that Remit can prove to have created for
// them. Labels do not make an object a component, because any user can set them on objects that the user may write
// (docs/adr/0062).
//
// The controller reads only from the caches of the other controllers. It writes as the controller identity.
package operator
