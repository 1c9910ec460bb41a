package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"github.com/remit-olm/remit/pkg/catalog"
)

// PutBundle stores the manifests of a bundle image.
func (s *Store) PutBundle(key string, content *catalog.Content) error {
	file, err := s.temp()
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // fails if the file was moved into place
	for _, part := range [][]byte{[]byte(content.Digest()), {'\n'}, encode(content)} {
		if _, err := file.Write(part); err != nil {
			_ = file.Close()
			return wrapWriteError(err)
		}
	}
	if err := replace(file, s.path(dirBundles, key)); err != nil {
		return wrapWriteError(err)
	}
	return s.Sweep()
}

// Bundle reads the manifests of a bundle image. The error is fs.ErrNotExist if they are missing or damaged.
func (s *Store) Bundle(key string) (*catalog.Content, error) {
	path := s.path(dirBundles, key)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	digest, rest, _ := bytes.Cut(data, []byte{'\n'})
	content, err := decode(rest, string(digest))
	if errors.Is(err, errDamaged) {
		return nil, errors.Join(os.Remove(path), fs.ErrNotExist)
	}
	used(path)
	return content, err
}
