package bundlev2

import (
	"embed"
	"io/fs"
)

// Names that the bundle declares. The package and the channel are those of the first version.
const (
	CSV = "sample-operator.v0.2.0"
	// OperatorImage is the image of both Deployments. Map it to bin/sample-operator.
	OperatorImage = "remit.dev/sample-operator:v0.2.0"
)

//go:embed manifests metadata
var files embed.FS

// FS returns the bundle, with the directories manifests and metadata.
func FS() fs.FS {
	return files
}
