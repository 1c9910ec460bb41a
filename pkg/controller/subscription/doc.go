// Package subscription resolves the Subscriptions of a namespace, creates the resulting InstallPlans, and reports the
// state of the Subscriptions. It is the only writer of the Subscriptions' status.
//
// Each reconcile request names a namespace. The name of an InstallPlan is a hash of what the plan installs, so that a
// plan created before a crash is found again. A problem that affects one Subscription is reported only on that
// Subscription.
package subscription
