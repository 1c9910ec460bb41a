package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/remit-olm/remit/pkg/catalog"
)

// PutBundle stores the manifests of a bundle image.
func (s *Store) PutBundle(key string, content *catalog.Content) error {
	return s.put(func(file *os.File) error {
		_, err := io.Copy(file, io.MultiReader(strings.NewReader(content.Digest()+"\n"), bytes.NewReader(encode(content))))
		return err
	}, func(file *os.File) error { return replace(file, s.path(dirBundles, key)) })
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
