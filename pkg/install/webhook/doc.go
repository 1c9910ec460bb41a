// Package webhook renders the webhook descriptions of a ClusterServiceVersion as webhook configurations and
// conversions of CustomResourceDefinitions, and determines the permissions that an account needs for them.
//
// [Validate] rejects descriptions that are invalid regardless of who installs the operator. [Intercepts] returns the
// permissions that an account needs so that its operator may intercept requests. [Desired] and [Conversions] only
// render objects; package hooks writes them.
//
// # Which requests a webhook receives
//
// A webhook of a bounded OperatorGroup, one with a named account, selects its targets by namespace name: the labels
// of a namespace are not a boundary. The API server ignores the namespace selector for cluster-scoped objects, so the
// webhook covers them only if the account may write them itself. An unbounded group, which uses the installation's
// default account, selects namespaces as OLM does.
package webhook
