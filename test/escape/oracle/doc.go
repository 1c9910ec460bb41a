// Package oracle says, after anything hostile was done in one namespace, whether something escaped from it.
// It knows nothing of what was done; it looks at the world:
//
//	I1  no ServiceAccount of the namespace, and no new binding, holds what the account does not, as the API server
//	    says by a dry run as the account
//	I2  Remit's own identities sent nothing outside of the closed list (by the audit log), and requested
//	    tokens of accounts only, in all namespaces
//	I3  nothing outside of the namespace was made, changed or removed
//	I4  no token of a ServiceAccount stands in a log, an event, a status, a ConfigMap or any other object,
//	    and nothing that a neighbour keeps to itself
//	I5  Remit still installs for others, and its programs and accounts use a bounded amount of processor time and of
//	    requests
//	I6  Remit's programs are of a bounded size
//	I7  nothing that Remit or an account wrote runs, or ran, as a ServiceAccount that holds what the account does not
package oracle
