package bundle

import (
	"embed"
	"io/fs"
)

// Names that the bundle declares.
const (
	Package = "sample-operator"
	Channel = "stable"
	CSV     = "sample-operator.v0.1.0"
	// OperatorImage is the image of the operator's Deployment. Map it to bin/sample-operator.
	OperatorImage = "remit.dev/sample-operator:v0.1.0"
	// Image is the name under which catalogs list the bundle itself.
	Image = "remit.dev/sample-operator-bundle:v0.1.0"
)

//go:embed manifests metadata
var files embed.FS

// FS returns the bundle, with the directories manifests and metadata.
func FS() fs.FS {
	return files
}
