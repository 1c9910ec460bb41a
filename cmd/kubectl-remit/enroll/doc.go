// Package enroll is "kubectl remit enroll" and "kubectl remit unenroll": whoever administers a
// ServiceAccount says, or takes back, that Remit may act as it, and who may name it in an OperatorGroup.
// Both write as the user who runs them. What they write grants no more than that user holds, which the
// API server sees to.
package enroll
