// Package policy contains the admission policies for ClusterExtensions. The package manifests/policy reads them.
package policy

import "embed"

// Files contains the policies and their kustomization.
//
//go:embed *.yaml
var Files embed.FS
