package image

import (
	"bytes"
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// CheckLayers returns an error if the image has too many layers, if the layers are too large in total, or if a layer
// has an unsupported type or is not stored in the registry.
func (i *Image) CheckLayers(maxLayers int, maxBytes int64) error {
	if len(i.Manifest.Layers) > maxLayers {
		return Refuse("the image has more than %d layers", maxLayers)
	}
	left := maxBytes
	for _, d := range i.Manifest.Layers {
		switch {
		case len(d.URLs) > 0 || d.MediaType == types.DockerForeignLayer:
			return Refuse("layer %s is not stored in the registry", d.Digest)
		case !d.MediaType.IsLayer():
			return Refuse("layer %s has unsupported type %q", d.Digest, d.MediaType)
		case d.Size < 0 || d.Size > left:
			return Refuse("the image's layers are larger than %d bytes in total", maxBytes)
		}
		left -= d.Size
	}
	return nil
}

// Config reads the image's configuration.
func (i *Image) Config(ctx context.Context) (*v1.ConfigFile, error) {
	d := i.Manifest.Config
	if len(d.URLs) > 0 || d.Size < 0 || d.Size > MaxConfigBytes {
		return nil, Refuse("the image's configuration is larger than %d bytes or not stored in the registry", MaxConfigBytes)
	}
	data, err := i.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	if err := checkValues(data); err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, Refuse("parse the image's configuration: %w", err)
	}
	return config, nil
}

// Blob reads a whole blob and verifies its digest. The caller must have checked the size in the descriptor.
func (i *Image) Blob(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	stream, err := i.Stream(ctx, d)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(stream)
}

// Stream returns a reader for a blob. The digest and size are verified only when Read returns io.EOF; until then,
// callers must not rely on the data.
func (i *Image) Stream(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	layer, err := remote.Layer(i.at.Digest(d.Digest.String()), i.client.options(ctx, i.at, i.access)...)
	if err != nil {
		return nil, err
	}
	stream, err := layer.Compressed()
	if err != nil {
		return nil, withoutURL(err)
	}
	return &limited{ReadCloser: stream, left: d.Size, isExact: true, refusal: Refuse("the blob's size differs from the %d bytes in the image's manifest", d.Size)}, nil
}
