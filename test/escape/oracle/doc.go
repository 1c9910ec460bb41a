// Package oracle checks, after an attack in one namespace, whether the attack affected anything outside the namespace.
// It makes no assumptions about the attack and always examines the whole cluster:
//
//	I1  no ServiceAccount of the namespace, and no new binding, has permissions that the account does not have; the
//	    API server decides this in a dry run as the account
//	I2  according to the audit log, the controller identities sent only requests on the closed list, obtained tokens
//	    only for accounts of scenes, and impersonated only users of their ClusterExtensions
//	I3  nothing outside the namespace was created, changed or deleted
//	I4  no log, event, status, ConfigMap or other object contains a ServiceAccount token or private content of a
//	    neighbor
//	I5  Remit still installs operators for other tenants, and its programs and accounts use a bounded amount of CPU time and
//	    requests
//	I6  the memory of Remit's programs is bounded
//	I7  no workload that Remit or an account wrote runs, or ran, as a ServiceAccount with permissions that the account
//	    does not have
package oracle
