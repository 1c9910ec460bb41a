// Package policy contains the admission policy that limits the identity remit-remover. The package manifests/policy reads it.
package policy

import "embed"

// Files contains the policy and its kustomization.
//
//go:embed *.yaml
var Files embed.FS
