package bundlev2

import (
	"embed"
	"io/fs"
)

// What the bundle declares, for those who install it. Package and channel are those of the first version.
const (
	CSV = "sample-operator.v0.2.0"
	// OperatorImage is what both Deployments run: map it to bin/sample-operator.
	OperatorImage = "remit.dev/sample-operator:v0.2.0"
)

//go:embed manifests metadata
var files embed.FS

// FS returns the bundle: the folders manifests and metadata.
func FS() fs.FS {
	return files
}
