package unpack

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"
	"testing/fstest"
	"unicode"
	"unicode/utf8"

	"github.com/remit-olm/remit/pkg/image"
)

// Directories of a bundle.
const (
	dirManifests = "manifests"
	dirMetadata  = "metadata"
)

// archive collects the files of an image's layers.
type archive struct {
	// files is an in-memory file system. Despite its name, fstest is not limited to tests.
	files    fstest.MapFS
	unpacked image.Unpacked
	kept     int64
}

func newArchive() *archive {
	return &archive{files: fstest.MapFS{}, unpacked: image.Unpacked{Max: MaxUnpackedBytes, MaxEntries: MaxEntries}}
}

// add reads one layer of size compressed bytes, whose files replace those of earlier layers.
func (a *archive) add(layer io.Reader, size int64) error {
	seen := map[string]bool{}
	err := a.unpacked.Archive(layer, size, func(header *tar.Header, content io.Reader) error {
		return a.entry(header, content, seen)
	})
	if err == nil || errors.Is(err, image.ErrImage) {
		return err
	}
	// A format error is permanent: the digest was verified, so another read would return the same bytes.
	return image.Refuse("%w", err)
}

// entry adds a file that is in one of the bundle's directories, ignores directories and entries elsewhere, and refuses
// everything else.
func (a *archive) entry(header *tar.Header, content io.Reader, seen map[string]bool) error {
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	if !inBundle(name) {
		return nil
	}
	if header.Typeflag == tar.TypeDir {
		return nil
	}
	if !image.IsRegular(header) {
		return image.Refuse("entry %q is not a regular file", header.Name)
	}
	if name == dirManifests || name == dirMetadata {
		return image.Refuse("entry %q is not a directory", header.Name)
	}
	if seen[name] {
		return image.Refuse("duplicate file %q", header.Name)
	}
	seen[name] = true
	if header.Size > MaxFileBytes-a.kept {
		return image.Refuse("the bundle's files are larger than %d bytes in total", MaxFileBytes)
	}
	data, err := io.ReadAll(io.LimitReader(content, header.Size))
	if err != nil {
		return err
	}
	if a.kept += int64(len(data)); a.files[name] == nil && len(a.files) == MaxFiles {
		return image.Refuse("the bundle has more than %d files", MaxFiles)
	}
	a.files[name] = &fstest.MapFile{Data: data, Mode: 0o444}
	return nil
}

// clean returns an entry's path relative to the image's root. It refuses invalid names, paths outside the root, and
// whiteouts that would affect the bundle's directories.
func clean(name string) (string, error) {
	if strings.HasPrefix(name, "/") || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, `\`) {
		return "", image.Refuse("entry %q has an invalid name", name)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", image.Refuse("entry %q is outside the image", name)
		}
	}
	cleaned := path.Clean(name)
	if dir, base := path.Split(cleaned); strings.HasPrefix(base, ".wh.") && (dir == "" || inBundle(path.Clean(dir))) {
		return "", image.Refuse("entry %q is a whiteout, which is not allowed in the bundle's directories", name)
	}
	return cleaned, nil
}

func inBundle(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return top == dirManifests || top == dirMetadata
}
