package bundle

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Read parses a bundle in its published form: a file system with a directory "manifests".
func Read(fsys fs.FS) (*Bundle, error) {
	files, err := fs.Glob(fsys, "manifests/*")
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	content := &catalog.Content{}
	for _, f := range files {
		raw, err := fs.ReadFile(fsys, f)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		content.Manifests = append(content.Manifests, raw)
		content.Names = append(content.Names, path.Base(f))
	}
	return ParseContent(content)
}
