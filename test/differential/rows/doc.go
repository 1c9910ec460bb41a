// Package rows is the table of corner cases of the design page "Rule-check semantics", section 5.4, as data: 69 rows
// of what the account t1/acct holds, what it asks for, and the verdict. The unit test of pkg/rbac holds the engine
// against it, and test/differential a real API server.
package rows
