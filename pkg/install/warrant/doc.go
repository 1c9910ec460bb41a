// Package warrant keeps the door to an account's client. Who wants to write something that follows from a
// ClusterServiceVersion states what it is and what was found of that ClusterServiceVersion in the same look, and gets
// the client only if that allows it. The client itself cannot be had in another way, so that a new write cannot
// forget the check (security model, rule 3): the phase of a ClusterServiceVersion is no part of what is found.
//
// It is an explanation and a second lock; the API server judges each write besides. The csv controller calls it.
package warrant
