// Package resolver decides which bundles the Subscriptions of a namespace ask for, and turns them
// into the steps of plans. It reads what it is given (Snapshots, listers) and writes nothing.
//
// What was decided is a Plan of Pins: which bundle of which catalog, with the digest of its content.
// A plan's name is a hash of its pins, so the name of an InstallPlan commits to the content that was
// approved; its status is a display (security model, rule 3).
package resolver
