// Package webhook turns the webhook descriptions of a ClusterServiceVersion into webhook configurations
// and conversions of CustomResourceDefinitions, and says what an account must hold for that.
//
// [Validate] refuses what no author may ask for. [Intercepts] says what an account must be able to write
// itself, so that its operator may intercept it. [Desired] and [Conversions] are pure. [Installer] writes
// them with the client that it is given, which is authenticated as the account.
//
// # Whom a webhook reaches
//
// A bounded OperatorGroup, one whose account was named, reaches its targets by name: the labels of a
// namespace are no boundary. Cluster-scoped objects, for which the API server asks no namespace selector, it
// reaches only where the account may write them itself. An unbounded group, for which the installation's
// default account stands in, selects namespaces as tools know it from OLM (contract 1.13).
package webhook
