// Package resolver selects the bundles that satisfy the Subscriptions of a namespace, and turns them into the steps
// of plans. It reads its inputs (Snapshots, listers) and writes nothing.
//
// A decision is recorded as a Plan, which consists of Pins. Each Pin names a bundle of a catalog and the digest of its
// content. A plan's name is a hash of its pins, so the name of an InstallPlan commits to the approved content; its
// status is for display only (security model, rule 3).
package resolver
