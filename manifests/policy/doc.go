// Package policy contains the admission policies of an installation, and compares a cluster's policies with them.
//
// The policies enforce limits that RBAC cannot express, on the controller identities and on authors. An installation whose
// policies name another identity, or do not deny requests, is not bounded. All programs therefore call Check before they do
// anything else (docs/adr/0027). Kustomize reads the same files.
// The policies for ClusterExtensions are in manifests/extensions/policy.
package policy
