// Package installplan carries out approved InstallPlans, each as the account of its namespace's
// OperatorGroup, and is the only writer of their status.
//
//	decode -> approval -> account -> steps -> preflight -> client -> gather -> apply -> verify -> complete
//
// What a plan does is recomputed on every visit from the bundles that its name commits to; its status
// is a display. A plan that lacks permissions waits without sending anything, until a watch on RBAC
// shows that they are there. Nothing is written before everything that is missing or in the way has
// been said at once.
package installplan
