// Package enroll implements "kubectl remit enroll" and "kubectl remit unenroll": the administrator of a
// ServiceAccount allows, or no longer allows, Remit to act as it and users to name it in an OperatorGroup.
// Both commands write as the user who runs them. The API server ensures that they grant no more than that user
// is allowed to.
package enroll
