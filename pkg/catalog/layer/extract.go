package layer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/image"
)

// LabelConfigs of an image names the folder of its file-based catalog.
const LabelConfigs = "operators.operatorframework.io.index.configs.v1"

// ErrNoCatalog says that an image has no file-based catalog: it is a registry to be run.
var ErrNoCatalog = errors.New("the image carries no file-based catalog (label " + LabelConfigs + ", or spec.grpcPodConfig.extractContent)")

// Folder is where an image's catalog is, from the image's root: what the label says, or else extract, the
// folder that a CatalogSource names (spec.grpcPodConfig.extractContent.catalogDir).
func Folder(ctx context.Context, from *image.Image, extract string) (string, error) {
	config, err := from.Config(ctx)
	if err != nil {
		return "", err
	}
	said := config.Config.Labels[LabelConfigs]
	if said == "" {
		said = extract
	}
	if said == "" {
		return "", ErrNoCatalog
	}
	folder := strings.TrimPrefix(path.Clean("/"+said), "/")
	if folder == "" {
		return "", image.Refuse("its file-based catalog is said to be in %q", said)
	}
	return folder, nil
}

// Target is where files are written.
type Target struct {
	// Dir is empty and stays the caller's.
	Dir string
	// Max bounds the bytes of all files; zero is catalog.MaxCatalogBytes.
	Max int64
	// Take is asked for bytes before they are written, as they come; nil has any number.
	Take func(bytes int64) error
}

// Extract writes the files of a folder of an image.
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
	if to.Max > 0 {
		e.max = to.Max
	}
	// From the top: what a layer has counts over what those below it have.
	for _, d := range slices.Backward(from.Manifest.Layers) {
		if err := e.layer(ctx, from, d); err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	if e.files == 0 {
		return image.Refuse("there are no files in its folder %q", folder)
	}
	return nil
}

type extraction struct {
	root   *os.Root
	take   func(int64) error
	folder string
	// hidden are the paths that layers above have, or take away with all below them.
	hidden map[string]bool
	// hides are those that the layer at hand adds; they do not hide its own.
	hides          []string
	unpacked       image.Unpacked
	kept, max      int64
	entries, files int
}

func newExtraction(root *os.Root, folder string) *extraction {
	return &extraction{root: root, folder: folder, unpacked: image.Unpacked{Max: MaxUnpackedBytes}, max: catalog.MaxCatalogBytes, hidden: map[string]bool{}}
}

// layer reads one layer to its end, where its digest is known. An error of the formats is the image's only if
// the bytes are those of the digest: another read would then find the same.
func (e *extraction) layer(ctx context.Context, from *image.Image, d v1.Descriptor) error {
	stream, err := from.Stream(ctx, d)
	if err != nil {
		return err
	}
	defer stream.Close()
	problem := e.read(stream, d.Size)
	if errors.Is(problem, errWrite) {
		return problem
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return err
	}
	for _, p := range e.hides {
		e.hidden[p] = true
	}
	e.hides = nil
	if problem == nil || errors.Is(problem, image.ErrImage) {
		return problem
	}
	return image.Refuse("%w", problem)
}

func (e *extraction) read(layer io.Reader, size int64) error {
	stream, err := e.unpacked.Layer(layer, size)
	if err != nil {
		return err
	}
	defer stream.Close()
	reader := tar.NewReader(stream)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if e.entries++; e.entries > MaxEntries {
			return image.Refuse("more than %d entries", MaxEntries)
		}
		if err := e.entry(header, reader); err != nil {
			return err
		}
	}
	// What follows the archive's end belongs to nothing, and is held to the limits all the same.
	_, err = io.Copy(io.Discard, stream)
	return err
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// entry takes a file of the catalog, notes what hides others, and passes over the rest.
func (e *extraction) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean("/" + header.Name)[1:]
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	switch {
	case base == opaque:
		e.hide(dir + "/")
		return nil
	case strings.HasPrefix(base, whiteout):
		e.hide(path.Join(dir, strings.TrimPrefix(base, whiteout)))
		return nil
	case header.Typeflag == tar.TypeDir || e.isHidden(name):
		return nil
	case name == e.folder || strings.HasPrefix(e.folder, name+"/"):
		return image.Refuse("%q, which its catalog is said to be in, is no folder", name)
	}
	rel, ok := strings.CutPrefix(name, e.folder+"/")
	if !ok {
		return nil
	}
	if !fs.ValidPath(rel) || strings.ContainsFunc(rel, unicode.IsControl) {
		return image.Refuse("entry %q", header.Name)
	}
	if header.Typeflag != tar.TypeReg {
		return image.Refuse("%q is no regular file", header.Name)
	}
	e.hide(name)
	return e.keep(rel, header, content)
}

// hide remembers a path if it can matter: one that is, or is above, or is below the catalog's folder.
func (e *extraction) hide(name string) {
	plain := strings.TrimSuffix(name, "/")
	if plain == e.folder || strings.HasPrefix(plain, e.folder+"/") || strings.HasPrefix(e.folder, plain+"/") || plain == "" {
		e.hides = append(e.hides, name)
	}
}

// isHidden says whether a layer above has a path or something in its place, or takes it away. "x/" hides what
// is in x, and not x.
func (e *extraction) isHidden(name string) bool {
	if len(e.hidden) == 0 {
		return false
	}
	for p := name; p != "."; p = path.Dir(p) {
		if e.hidden[p] || p != name && e.hidden[p+"/"] {
			return true
		}
	}
	return e.hidden["/"]
}

// errWrite tells our own disk's errors from an image's.
var errWrite = errors.New("cannot be written to disk")

func (e *extraction) keep(rel string, header *tar.Header, content io.Reader) error {
	if e.files++; e.files > MaxFiles {
		return image.Refuse("more than %d files", MaxFiles)
	}
	if header.Size > e.max-e.kept {
		return image.Refuse("files of more than %d bytes in its folder %q", e.max, e.folder)
	}
	e.kept += header.Size
	if dir := path.Dir(rel); dir != "." {
		if err := e.root.MkdirAll(dir, 0o700); err != nil {
			return wordWrite(header.Name, err)
		}
	}
	// A file that is there twice in one layer, as a tool may write it, is the later one.
	file, err := e.root.OpenFile(rel, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return wordWrite(header.Name, err)
	}
	defer file.Close()
	to := &writer{Writer: file, take: e.take}
	if _, err := io.Copy(to, content); err != nil {
		return err
	}
	return nil
}

// wordWrite leaves out where the directory is. A name that cannot be a file's is the image's fault.
func wordWrite(name string, err error) error {
	if isNameError(err) {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return image.Refuse("entry %q: %w", name, err)
	}
	return unwritten(err)
}

// unwritten leaves out where the directory is.
func unwritten(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%w: %w", errWrite, err)
}

// writer asks for what it writes, and marks errors of the disk.
type writer struct {
	io.Writer
	take func(int64) error
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.take != nil {
		if err := w.take(int64(len(p))); err != nil {
			return 0, fmt.Errorf("%w: %w", errWrite, err)
		}
	}
	n, err := w.Writer.Write(p)
	if err != nil {
		err = unwritten(err)
	}
	return n, err
}
