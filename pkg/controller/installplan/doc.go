// Package installplan executes approved InstallPlans, each as the account of its namespace's OperatorGroup, and is the
// only writer of their status.
//
//	decode -> approval -> account -> steps -> preflight -> client -> gather -> apply -> verify -> complete
//
// Every reconcile recomputes what a plan does from the bundles that its name commits to; the status only displays it.
// A plan with missing permissions waits, without sending requests, until a watch on RBAC shows that they were granted.
// All missing permissions and other obstacles are reported at once, before anything is written.
package installplan
