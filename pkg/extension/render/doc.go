// Package render turns a registry+v1 bundle into the objects that a ClusterExtension installs, without side effects.
//
// It is a composition of the packages that render the same objects for a ClusterServiceVersion: bundle and step/build for
// manifests and RBAC, install/deployment for Deployments, install/hooks for webhooks, conversions, APIs, Services and
// certificates. For a ClusterExtension, the Extension of ownerutil.Owner is set: there is no ClusterServiceVersion, and the
// ClusterExtension owns every object.
//
// # Differences from an install with a Subscription
//
//   - The target namespaces come from the configuration ([ParseConfig]), not from an OperatorGroup.
//   - Webhook configurations have the names that the bundle gives them. Names of roles do not contain the version.
//   - Namespaced manifests are placed in the install namespace, even if they name another namespace.
//   - Operators have no OperatorCondition, and no Role to read the Secret with their certificate, which is mounted.
//   - Administrators can select a tool that issues certificates.
//
// As with a Subscription, an operator that watches other namespaces also gets its namespaced permissions in its own
// namespace, where it elects a leader.
//
// # Phases
//
// Objects are grouped into phases, which are applied one after another. Within a phase, they are sorted by kind, namespace
// and name; the output depends only on the input.
package render
