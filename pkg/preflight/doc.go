// Package preflight says, before the first write, everything that a plan needs and its account does not
// hold:
//
//	NeedsOf -> Examine -> Confirm -> Summary, Manifests, Files
//
// Needs are values, each with its cause: what Remit will send, by name, and what roles and bindings hand
// on. They are held locally against RBAC; what is missing there is confirmed by the API server, as another
// authorizer may allow it; what the API server says of the writes as a dry run is added by who has a
// client for that. The report is rendered as sentences, as RBAC to paste and as documents.
//
// It explains and never permits: the API server decides at each write. What cannot be decided is Unknown
// and stops nothing. The installplan controller calls it; so does the CLI.
package preflight
