// Package subscription resolves the Subscriptions of a namespace into InstallPlans, creates those, and
// reports back on the Subscriptions, of whose status it is the only writer.
//
// One request is one namespace. A Subscription with nothing installed gets a plan; the plan's name is a
// hash of what it installs, so that a crash between creating it and writing a status finds it again.
// A problem of one Subscription is written on that one only.
package subscription
