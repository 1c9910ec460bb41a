// Package policy holds the admission policies of an installation, and compares those of a cluster with them.
//
// The policies take away what RBAC cannot express: they limit Remit's own identities, and authors. An installation whose
// policies name another identity, or do less than deny, is not bounded, so both programs call Check before they do anything
// (docs/adr/0027). Kustomize reads the same files.
package policy
