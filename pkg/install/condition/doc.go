// Package condition renders the OperatorCondition of a ClusterServiceVersion, and the Role and RoleBinding that let the
// operator update it. It also evaluates what an OperatorCondition reports. Its callers are the csv controller, which
// writes the Role as the account and delays upgrades, and the operatorcondition controller, which creates the
// OperatorCondition and maintains its status.
//
// Nothing in an OperatorCondition determines what is written for an operator: the Role and its subjects are rendered from
// the ClusterServiceVersion.
package condition
