// Package oracle checks, after anything hostile was done in one namespace, whether something escaped from it. It does
// not know what was done; it examines the cluster:
//
//	I1  no ServiceAccount of the namespace, and no new binding, has permissions that the account does not have,
//	    according to the API server, in a dry run as the account
//	I2  the controller identities sent only requests of the closed list (according to the audit log), and requested
//	    tokens only for accounts, in all namespaces
//	I3  nothing outside of the namespace was created, changed or deleted
//	I4  no ServiceAccount token, and no private content of a neighbor, is in a log, an event, a status, a ConfigMap or
//	    any other object
//	I5  Remit still installs operators for others, and its programs and accounts use a bounded amount of CPU time and
//	    requests
//	I6  the memory of Remit's programs is bounded
//	I7  nothing that Remit or an account wrote runs, or ran, as a ServiceAccount with permissions that the account does
//	    not have
package oracle
