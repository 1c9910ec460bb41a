package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// convertBundle separates a bundle's inline manifests from its metadata. The content is nil if there are none.
func convertBundle(in *declcfg.Bundle) (*catalog.Bundle, *catalog.Content, error) {
	if err := catalog.CheckName(in.Name); err != nil {
		return nil, nil, err
	}
	out := &catalog.Bundle{Name: in.Name, Package: in.Package, Image: in.Image}
	var content contentBuilder
	for i := range in.Properties {
		p := &in.Properties[i]
		if err := p.Validate(); err != nil {
			return nil, nil, fmt.Errorf("property %d: %w", i+1, err)
		}
		var err error
		switch p.Type {
		case property.TypeBundleObject:
			err = content.add(p.Value)
			p.Value = nil
		case property.TypeCSVMetadata:
			// Omit this property: it is informational and large, and the bundle contains the same data.
		case property.TypePackage:
			err = setVersion(out, p.Value)
			fallthrough
		default:
			out.Properties = append(out.Properties, catalog.Property{Type: p.Type, Value: canonical(p.Value)})
		}
		if err != nil {
			return nil, nil, fmt.Errorf("property %d (%s): %w", i+1, p.Type, err)
		}
	}
	return out, content.content, nil
}

// canonical returns JSON with sorted keys and without insignificant whitespace, so that content from YAML and from JSON has
// the same digest.
func canonical(value json.RawMessage) json.RawMessage {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return value
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return value
	}
	return slices.Clone(bytes.TrimSuffix(out.Bytes(), []byte{'\n'}))
}

func setVersion(b *catalog.Bundle, value json.RawMessage) error {
	var p property.Package
	if err := json.Unmarshal(value, &p); err != nil {
		return err
	}
	switch {
	case p.PackageName != b.Package:
		return fmt.Errorf("packageName must be %q, but is %q", b.Package, p.PackageName)
	case b.Version != "":
		return errors.New("bundle has more than one version")
	}
	if _, err := versions.Parse(p.Version); err != nil {
		return fmt.Errorf("version %q: %w", message.Start(p.Version), err)
	}
	b.Version = p.Version
	return nil
}

type contentBuilder struct {
	content *catalog.Content
	bytes   int
}

func (c *contentBuilder) add(value json.RawMessage) error {
	var object struct {
		Data []byte `json:"data"`
		Ref  string `json:"ref"`
	}
	if err := json.Unmarshal(value, &object); err != nil {
		return err
	}
	if object.Ref != "" {
		return fmt.Errorf("ref %q is not supported; include the object in data", object.Ref)
	}
	if len(object.Data) == 0 {
		return errors.New("data is required")
	}
	if c.bytes += len(object.Data); c.bytes > catalog.MaxContentBytes {
		return fmt.Errorf("the bundle's manifests are larger than %d bytes in total", catalog.MaxContentBytes)
	}
	if c.content == nil {
		c.content = &catalog.Content{}
	}
	if len(c.content.Manifests) == catalog.MaxManifests {
		return fmt.Errorf("the bundle has more than %d manifests", catalog.MaxManifests)
	}
	c.content.Manifests = append(c.content.Manifests, object.Data)
	return nil
}
