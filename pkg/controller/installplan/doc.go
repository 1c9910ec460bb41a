// Package installplan executes approved InstallPlans, each as the account of its namespace's OperatorGroup, and is the
// only writer of their status.
//
//	decode -> approval -> account -> steps -> preflight -> client -> gather -> apply -> verify -> complete
//
// Every reconcile recomputes the steps of a plan from the bundles that the plan's name commits to. The status only shows
// the steps.
//
// A plan with missing permissions waits, without sending requests, until a watch on RBAC shows that they were granted.
// All missing permissions and other obstacles are reported at once, before anything is written.
package installplan
