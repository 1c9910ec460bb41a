// Package rows contains the corner cases of RBAC's escalation check as data: 69 rows, each with the permissions of the
// account t1/acct, the requested permissions, and the verdict. The unit test of pkg/rbac runs them against the rule
// engine, and test/differential against a real API server.
package rows
