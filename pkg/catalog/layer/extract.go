package layer

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
)

// LabelConfigs is the image label that names the directory of the file-based catalog.
const LabelConfigs = "operators.operatorframework.io.index.configs.v1"

// ErrNoCatalog means that an image contains no file-based catalog and must be run as a registry.
var ErrNoCatalog = errors.New("the image contains no file-based catalog: neither its label " + LabelConfigs +
	" nor spec.grpcPodConfig.extractContent names a catalog directory")

// Folder returns the directory of an image's catalog, relative to the image's root: the value of the label, or else
// extract, the directory that a CatalogSource names (spec.grpcPodConfig.extractContent.catalogDir).
func Folder(ctx context.Context, from *image.Image, extract string) (string, error) {
	config, err := from.Config(ctx)
	if err != nil {
		return "", err
	}
	named := cmp.Or(config.Config.Labels[LabelConfigs], extract)
	if named == "" {
		return "", ErrNoCatalog
	}
	folder := strings.TrimPrefix(path.Clean("/"+named), "/")
	if folder == "" || strings.Count(folder, "/") > MaxDepth {
		return "", image.Refuse("%.64q is not a valid catalog directory", named)
	}
	return folder, nil
}

// Target is the destination of the files.
type Target struct {
	// Dir is an empty directory, which the caller removes.
	Dir string
	// Max bounds the total size of the files; zero means catalog.MaxCatalogBytes.
	Max int64
	// MaxUnpacked bounds the total uncompressed size of the layers; zero means MaxUnpackedBytes.
	MaxUnpacked int64
	// MaxNames bounds the memory for the names of files, and of removed files; zero means MaxHiddenBytes.
	MaxNames int
	// Take reserves bytes before they are written; nil means that no reservation is needed.
	Take func(bytes int64) error
}

// Extract writes the files in a directory of an image to a target. Unless it returns an error, it has verified the
// digests of all layers. It refuses an image whose directory contains no files.
func Extract(ctx context.Context, from *image.Image, folder string, to Target) error {
	if err := from.CheckLayers(MaxLayers, MaxCompressedBytes); err != nil {
		return err
	}
	root, err := os.OpenRoot(to.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	e := newExtraction(root, folder)
	e.take = to.Take
	if to.MaxUnpacked > 0 {
		e.unpacked.Max = to.MaxUnpacked
	}
	if to.MaxNames > 0 {
		e.maxNames = to.MaxNames
	}
	if to.Max > 0 {
		e.max = to.Max
	}
	// The topmost layer comes first, because upper layers hide the files of lower ones.
	for _, d := range slices.Backward(from.Manifest.Layers) {
		if err := e.layer(ctx, from, d); err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	if e.files == 0 {
		return image.Refuse("catalog directory %q contains no files", folder)
	}
	return nil
}

type extraction struct {
	root   *os.Root
	take   func(int64) error
	folder string
	// hidden contains the paths that upper layers provide, or remove with everything below them.
	hidden map[string]bool
	// hides contains the paths that the current layer adds to hidden. They do not hide files of the same layer.
	hides map[string]bool
	// hiddenBytes estimates the memory of hidden, hides and dirs, and maxNames bounds it.
	hiddenBytes, maxNames int
	unpacked              image.Unpacked
	kept, max             int64
	files                 int
	// dirs contains the directories that were created. Their names are parts of those in hides.
	dirs map[string]bool
}

func newExtraction(root *os.Root, folder string) *extraction {
	return &extraction{
		root: root, folder: folder, unpacked: image.Unpacked{Max: MaxUnpackedBytes, MaxEntries: MaxEntries},
		max: catalog.MaxCatalogBytes, maxNames: MaxHiddenBytes, hidden: map[string]bool{}, hides: map[string]bool{}, dirs: map[string]bool{},
	}
}

// layer reads one layer to its end, so that its digest is verified. A format error is permanent only if the digest matches,
// because another read would then return the same bytes.
func (e *extraction) layer(ctx context.Context, from *image.Image, d v1.Descriptor) error {
	stream, err := from.Stream(ctx, d)
	if err != nil {
		return err
	}
	defer stream.Close()
	problem := e.unpacked.Archive(stream, d.Size, func(header *tar.Header, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return e.entry(header, content)
	})
	if errors.Is(problem, disk.ErrWrite) || problem != nil && ctx.Err() != nil {
		return problem
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	maps.Copy(e.hidden, e.hides)
	clear(e.hides)
	if problem == nil || errors.Is(problem, image.ErrImage) {
		return problem
	}
	return image.Refuse("%w", problem)
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// entry writes a file of the catalog, records the paths that an entry hides in lower layers, and ignores other entries.
func (e *extraction) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean("/" + header.Name)[1:]
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	rel, ok := strings.CutPrefix(name, e.folder+"/")
	if err := e.checkDepth(header, rel, ok); err != nil {
		return err
	}
	switch {
	case base == opaque:
		return e.hide(dir + "/")
	case strings.HasPrefix(base, whiteout):
		return e.hide(path.Join(dir, strings.TrimPrefix(base, whiteout)))
	case header.Typeflag == tar.TypeDir || !e.concerns(name) || e.isHidden(name):
		return nil
	case name == e.folder || strings.HasPrefix(e.folder, name+"/"):
		return image.Refuse("catalog directory %q: %q is not a directory", e.folder, name)
	}
	if !ok {
		return nil
	}
	if err := checkFile(header, rel); err != nil {
		return err
	}
	if err := e.hide(name); err != nil {
		return err
	}
	return e.keep(rel, header, content)
}

// checkDepth refuses an entry below the catalog's directory whose depth would let isHidden take long.
func (e *extraction) checkDepth(header *tar.Header, rel string, below bool) error {
	if depth := strings.Count(rel, "/"); below && depth > MaxDepth {
		return image.Refuse("entry %.64q is in %d directories below catalog directory %q, and at most %d are allowed", header.Name, depth, e.folder, MaxDepth)
	}
	return nil
}

// checkFile refuses an entry that is not a regular file with a valid path.
func checkFile(header *tar.Header, rel string) error {
	if !fs.ValidPath(rel) || strings.ContainsFunc(rel, unicode.IsControl) {
		return image.Refuse("entry %q has an invalid name", header.Name)
	}
	if !image.IsRegular(header) {
		return image.Refuse("entry %q is not a regular file", header.Name)
	}
	return nil
}

// concerns reports whether a path is the catalog's directory, one of its parents, or below it.
func (e *extraction) concerns(name string) bool {
	return name == e.folder || strings.HasPrefix(name, e.folder+"/") || strings.HasPrefix(e.folder, name+"/") || name == ""
}

// hide records a path that the current layer hides in lower layers, if it concerns the catalog. A path counts once.
func (e *extraction) hide(name string) error {
	if !e.concerns(strings.TrimSuffix(name, "/")) || e.hidden[name] || e.hides[name] {
		return nil
	}
	if err := e.remember(len(name) + hiddenOverhead); err != nil {
		return err
	}
	e.hides[name] = true
	return nil
}

// remember counts the memory of names.
func (e *extraction) remember(n int) error {
	if e.hiddenBytes += n; e.hiddenBytes > e.maxNames {
		return image.Refuse("the names of the files, and of removed files, in catalog directory %q take more than %d bytes", e.folder, e.maxNames)
	}
	return nil
}

// isHidden reports whether an upper layer provides, replaces or removes a path. "x/" hides the contents of x, but not x.
func (e *extraction) isHidden(name string) bool {
	if len(e.hidden) == 0 {
		return false
	}
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '/') {
		if e.hidden[name[:end]] || end < len(name) && e.hidden[name[:end+1]] {
			return true
		}
	}
	return e.hidden["/"]
}

func (e *extraction) keep(rel string, header *tar.Header, content io.Reader) error {
	if e.files++; e.files > MaxFiles {
		return image.Refuse("catalog directory %q contains more than %d files", e.folder, MaxFiles)
	}
	if header.Size > e.max-e.kept {
		return image.Refuse("the files in catalog directory %q are larger than %d bytes in total", e.folder, e.max)
	}
	e.kept += header.Size
	if err := e.makeParents(rel, header.Name); err != nil {
		return err
	}
	// If a layer contains a file twice, which some tools produce, the later one is used.
	file, err := e.root.OpenFile(rel, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return describeWriteError(header.Name, err)
	}
	defer file.Close()
	_, err = io.Copy(&writer{Writer: file, take: e.take}, content)
	return err
}

// makeParents creates the directories of a file, and reserves their space first.
func (e *extraction) makeParents(rel, entry string) error {
	before := len(e.dirs)
	dir := path.Dir(rel)
	for p := dir; p != "." && !e.dirs[p]; p = path.Dir(p) {
		if err := e.remember(hiddenOverhead); err != nil {
			return err
		}
		e.dirs[p] = true
	}
	made := len(e.dirs) - before
	switch {
	case made == 0:
		return nil
	case len(e.dirs) > MaxDirectories:
		return image.Refuse("catalog directory %q contains more than %d directories", e.folder, MaxDirectories)
	case e.take != nil:
		if err := e.take(int64(made) * directoryBytes); err != nil {
			return fmt.Errorf("%w: %w", disk.ErrWrite, err)
		}
	}
	if err := e.root.MkdirAll(dir, 0o700); err != nil {
		return describeWriteError(entry, err)
	}
	return nil
}

// describeWriteError removes the path of the directory from the error. It reports an invalid file name as a problem
// with the image, and any other error as a problem with the disk.
func describeWriteError(name string, err error) error {
	if isNameError(err) {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return image.Refuse("entry %q: %w", name, err)
	}
	return disk.WriteError(err)
}

// isNameError reports whether the file system refused a name rather than the write.
func isNameError(err error) bool {
	var is syscall.Errno
	return errors.As(err, &is) &&
		slices.Contains([]syscall.Errno{syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.EINVAL, syscall.ELOOP}, is)
}

// writer reserves the bytes that it writes, and marks errors as disk.ErrWrite.
type writer struct {
	io.Writer
	take func(int64) error
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.take != nil {
		if err := w.take(int64(len(p))); err != nil {
			return 0, fmt.Errorf("%w: %w", disk.ErrWrite, err)
		}
	}
	n, err := w.Writer.Write(p)
	if err != nil {
		err = disk.WriteError(err)
	}
	return n, err
}
