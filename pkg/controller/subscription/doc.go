// Package subscription resolves the Subscriptions of a namespace into InstallPlans, creates the InstallPlans, and
// reports on the Subscriptions. It is the only writer of the Subscriptions' status.
//
// A request is a namespace. A Subscription with nothing installed gets a plan. The plan's name is a hash of what it
// installs, so that a plan created before a crash is found again. A problem of one Subscription is reported only on
// that one.
package subscription
