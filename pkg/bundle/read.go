package bundle

import (
	"fmt"
	"io/fs"
)

// Read parses a bundle as its author publishes it: a file system with a folder "manifests".
func Read(fsys fs.FS) (*Bundle, error) {
	files, err := fs.Glob(fsys, "manifests/*")
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var manifests [][]byte
	for _, f := range files {
		raw, err := fs.ReadFile(fsys, f)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		manifests = append(manifests, raw)
	}
	return Parse(manifests)
}
