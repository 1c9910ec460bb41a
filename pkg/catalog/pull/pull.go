package pull

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/display"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/image"
)

// Refused means that an image is invalid. Retrying does not help until the image changes.
type Refused struct{ Err error }

// Error implements error.
func (r Refused) Error() string { return r.Err.Error() }

// Unwrap returns the reason.
func (r Refused) Unwrap() error { return r.Err }

// asRefused marks errors of the image as permanent.
func asRefused(err error) error {
	if errors.Is(err, image.ErrImage) {
		return Refused{err}
	}
	return err
}

// Options configures Read. Disk and Turn are required.
type Options struct {
	Disk *disk.Store
	// Extract is the catalog's directory in images that have no label for it.
	Extract string
	// MaxFiles and MaxContents limit the size of the catalog's files and manifests, in bytes; zero means the limits that
	// apply to every catalog.
	MaxFiles, MaxContents int64
	// MaxUnpacked limits the uncompressed size of the image's layers; zero means the limit that applies to every catalog.
	MaxUnpacked int64
	// MaxNames limits the memory for the names of the image's files; zero means the limit that applies to every catalog.
	MaxNames int
	// Registry is the turn in which the registry is read; nil means that no turn is needed.
	Registry Turn
	// Take reserves disk space before it is used; nil means that no reservation is needed.
	Take func(bytes int64) error
	// Turn waits until the files can be parsed, or the stored catalog read. It returns a context and a loader for that, and a
	// function that Read calls when it is done. If a stored catalog cannot be used, Read takes a second turn.
	Turn func(context.Context) (context.Context, fbc.Loader, func(), error)
	// Lines is true if the objects of the catalog are also stored as JSON lines.
	Lines bool
	// Displays is true if the display-only data (catalog.Snapshot.Displays) is also stored. Lines and Displays must not both be
	// true.
	Displays bool
}

// Turn is a turn in which a registry is read. The caller of Read may have begun it.
type Turn interface {
	// Begin waits for the turn unless it has begun.
	Begin(context.Context) error
	// End ends the turn if it has begun. Read calls it before it takes a turn for parsing.
	End()
}

// Catalog is a catalog that was read.
type Catalog struct {
	*catalog.Snapshot
	// Lines contains the objects of the catalog, if Options.Lines is set.
	Lines *disk.Lines
}

// Read reads the catalog in an image. The error is layer.ErrNoCatalog if the image contains none, and a Refused if the
// catalog is invalid.
func Read(ctx context.Context, from *image.Image, o Options) (Catalog, error) {
	at := Location{from.Repository, from.Named.String()}
	if stored, err := Stored(ctx, at, o); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return stored, err
	}
	folder, err := layer.Folder(ctx, from, o.Extract)
	if err != nil {
		return Catalog{}, asRefused(err)
	}
	key := o.key(at)
	dir, remove, err := o.Disk.Work()
	if err != nil {
		return Catalog{}, err
	}
	defer remove()
	if err := o.extract(ctx, from, folder, dir); err != nil {
		return Catalog{}, asRefused(err)
	}
	ctx, loader, end, err := o.Turn(ctx)
	if err != nil {
		return Catalog{}, err
	}
	defer end()
	return o.Parse(ctx, Files{Key: key, Dir: dir}, loader)
}

// Location is where an image is: its repository, and the digest that its name resolves to (see image.Image).
type Location struct{ Repository, Named string }

// key returns the key of a stored catalog. It does not depend on what the image contains, so that no part of the image has to be
// read: the digest determines the label with the catalog's directory. Who reads with other limits has a key of its own, because the
// limits determine which files are omitted.
func (o Options) key(at Location) string {
	return disk.Key(at.Repository, at.Named, o.Extract, fmt.Sprint(o.MaxFiles, o.MaxContents, o.MaxUnpacked, o.MaxNames))
}

// Stored reads the catalog in an image from disk. The registry is not read, so that the turn for it ends, or is not needed. The caller must
// have made sure that the registry allows access to the image. The error is fs.ErrNotExist if the catalog is not on disk.
func Stored(ctx context.Context, at Location, o Options) (Catalog, error) {
	key := o.key(at)
	if !o.Disk.HasSnapshot(key) {
		return Catalog{}, fs.ErrNotExist
	}
	if o.Registry != nil {
		o.Registry.End()
	}
	return o.storedInTurn(ctx, key)
}

// extract reads the layers of an image.
func (o Options) extract(ctx context.Context, from *image.Image, folder, dir string) error {
	if o.Registry != nil {
		if err := o.Registry.Begin(ctx); err != nil {
			return err
		}
		defer o.Registry.End()
	}
	return layer.Extract(ctx, from, folder, layer.Target{Dir: dir, Max: o.MaxFiles, MaxNames: o.MaxNames, MaxUnpacked: o.MaxUnpacked, Take: o.Take})
}

// storedInTurn reads a stored catalog in a turn, with the memory of a large document: the text of a package is in memory besides the
// package. When the program starts, all catalogs are read.
func (o Options) storedInTurn(ctx context.Context, key string) (Catalog, error) {
	ctx, loader, end, err := o.Turn(ctx)
	if err != nil {
		return Catalog{}, err
	}
	defer end()
	done, err := loader.Decoding.Begin(ctx, catalog.DecodingMemory)
	if err != nil {
		return Catalog{}, context.Cause(ctx)
	}
	defer done()
	return o.stored(key, loader.Take)
}

// stored returns the catalog if it is on disk with all of the required data.
func (o Options) stored(key string, take func(kept int64) error) (Catalog, error) {
	snap, err := o.Disk.Snapshot(key, take)
	if err != nil || !o.Lines && !o.Displays {
		return Catalog{Snapshot: snap}, err
	}
	read := o.Disk.Lines
	if o.Displays {
		read = o.Disk.Displays
	}
	lines, err := read(key)
	if err != nil {
		if contents, ok := snap.Reader.(*disk.Contents); ok {
			_ = contents.Close()
		}
		return Catalog{}, err
	}
	if o.Displays {
		snap.Displays = display.New(lines, snap.Reader)
		return Catalog{Snapshot: snap}, nil
	}
	return Catalog{snap, lines}, nil
}

// Files describes the temporary files of a catalog: the key under which the catalog is stored, and the directory of the
// files.
type Files struct{ Key, Dir string }

// Parse parses the files of a catalog and stores the result on disk. The error is a Refused if the catalog is invalid.
func (o Options) Parse(ctx context.Context, from Files, loader fbc.Loader) (Catalog, error) {
	contents, err := o.Disk.NewContents(o.MaxContents, o.Take)
	if err != nil {
		return Catalog{}, err
	}
	loader.Contents = contents
	var written *disk.LinesWriter
	if o.Lines {
		if written, err = o.Disk.NewLines(o.Take); err != nil {
			contents.Discard()
			return Catalog{}, err
		}
		defer written.Discard()
		loader.Objects = written.Put
	}
	var shown *display.Recorder
	if o.Displays {
		if shown, err = display.Record(o.Disk, &loader, o.Take); err != nil {
			contents.Discard()
			return Catalog{}, err
		}
		defer shown.Discard()
	}
	out, err := o.parse(ctx, from, loader, contents)
	if err == nil {
		err = between(ctx, loader)
	}
	if err == nil && o.Displays {
		err = shown.Finish(from.Key, out.Snapshot)
	}
	if err == nil && o.Lines {
		out.Lines, err = o.Disk.PutLines(from.Key, written, func(l disk.Line) bool { return l.IsOf(out.Packages) })
	}
	if err != nil {
		contents.Discard()
		return Catalog{}, err
	}
	return out, nil
}

func (o Options) parse(ctx context.Context, from Files, loader fbc.Loader, contents *disk.Contents) (Catalog, error) {
	var full error
	if reserve := loader.Take; reserve != nil {
		loader.Take = func(kept int64) error {
			full = reserve(kept)
			return full
		}
	}
	snap, err := loader.Load(ctx, os.DirFS(from.Dir))
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, disk.ErrWrite): // an error of the local disk, not of the image
	case full != nil: // the image is valid, but other catalogs use the memory
	case err != nil:
		err = Refused{fmt.Errorf("read the file-based catalog: %w", err)}
	default:
		if err = between(ctx, loader); err == nil {
			err = o.Disk.PutSnapshot(from.Key, snap, contents)
		}
	}
	return Catalog{Snapshot: snap}, err
}

// between lets other catalogs proceed: each step after the last document takes time, too.
func between(ctx context.Context, loader fbc.Loader) error {
	if loader.Between == nil {
		return context.Cause(ctx)
	}
	return loader.Between(ctx)
}

// Drop deletes a catalog's content on disk, unless it has other users.
func Drop(snap *catalog.Snapshot) {
	if snap == nil {
		return
	}
	if contents, ok := snap.Reader.(*disk.Contents); ok {
		contents.Drop()
	}
}
