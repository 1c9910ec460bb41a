// Package operatorcondition creates the OperatorCondition of each ClusterServiceVersion that is not a copy, as the
// controller identity, and maintains its status. OperatorConditions have no effect on what Remit may do. Users and
// operators write their spec, which Remit never changes.
//
// The csv controller holds back upgrades. It also writes, as the account, the Role that allows an operator to update its
// OperatorCondition.
package operatorcondition
