// Package webhook renders the webhook descriptions of a ClusterServiceVersion as webhook configurations and
// conversions of CustomResourceDefinitions, and determines what an account must be allowed to do for them.
//
// [Validate] rejects descriptions that no operator may have. [Intercepts] returns what an account must be able to
// write itself, so that its operator may intercept it. [Desired] and [Conversions] are pure; package hooks writes.
//
// # Which requests a webhook receives
//
// A webhook of a bounded OperatorGroup, one with a named account, selects its targets by namespace name: the labels
// of a namespace are not a boundary. The API server ignores the namespace selector for cluster-scoped objects, so the
// webhook covers them only if the account may write them itself. An unbounded group, which uses the installation's
// default account, selects namespaces as OLM does (contract 1.13).
package webhook
