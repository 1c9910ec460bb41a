package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// CheckLayers refuses layers that are too many, too large together, of no known kind, or to be read from
// elsewhere than the registry.
func (i *Image) CheckLayers(maxLayers int, maxBytes int64) error {
	if len(i.Manifest.Layers) > maxLayers {
		return Refuse("more than %d layers", maxLayers)
	}
	left := maxBytes
	for _, d := range i.Manifest.Layers {
		switch {
		case len(d.URLs) > 0 || d.MediaType == types.DockerForeignLayer:
			return Refuse("layer %s is to be read from elsewhere than the registry", d.Digest)
		case !d.MediaType.IsLayer():
			return Refuse("layer %s is of type %q", d.Digest, d.MediaType)
		case d.Size < 0 || d.Size > left:
			return Refuse("layers of more than %d bytes", maxBytes)
		}
		left -= d.Size
	}
	return nil
}

// Config reads the image's configuration.
func (i *Image) Config(ctx context.Context) (*v1.ConfigFile, error) {
	d := i.Manifest.Config
	if len(d.URLs) > 0 || d.Size < 0 || d.Size > MaxConfigBytes {
		return nil, Refuse("a configuration of more than %d bytes, or from elsewhere than the registry", MaxConfigBytes)
	}
	data, err := i.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, Refuse("its configuration: %w", err)
	}
	return config, nil
}

// Blob reads a blob whole. Its digest is checked before anything of it is looked at. The caller has seen
// that its size is within a limit.
func (i *Image) Blob(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	stream, err := i.Stream(ctx, d)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(stream)
}

// Stream reads a blob piece by piece, as it is sent. That its digest and size are what the manifest says is
// known only once Read has returned io.EOF: nothing that was read may count before.
func (i *Image) Stream(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	layer, err := remote.Layer(i.at.Digest(d.Digest.String()), i.client.options(ctx, i.at, i.access)...)
	if err != nil {
		return nil, err
	}
	stream, err := layer.Compressed()
	if err != nil {
		return nil, withoutURL(err)
	}
	return &sized{ReadCloser: stream, left: d.Size, size: d.Size}, nil
}

// sized refuses a blob that is not of the size that its manifest says.
type sized struct {
	io.ReadCloser
	left, size int64
}

// Read implements io.Reader.
func (s *sized) Read(p []byte) (int, error) {
	if int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.ReadCloser.Read(p)
	s.left -= int64(n)
	if s.left < 0 || errors.Is(err, io.EOF) && s.left > 0 {
		return 0, Refuse("it is not of the %d bytes that the manifest says", s.size)
	}
	return n, err
}
