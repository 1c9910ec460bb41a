package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// ErrImage says that an image is not, or holds not, what it has to. No retry mends it.
var ErrImage = errors.New("refused image")

// Refuse makes an ErrImage.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrImage, fmt.Errorf(format, args...))
}

// Reference reads the name of an image. It must name its registry: of a short name, two people mean two images.
func Reference(text string, options ...name.Option) (name.Reference, error) {
	ref, err := name.ParseReference(text, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, fmt.Errorf("image %q: want REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST", text)
	}
	return ref, nil
}

// Tagged adds the tag that Kubernetes means where an image has neither tag nor digest.
func Tagged(text string) string {
	last := text[strings.LastIndexByte(text, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return text
	}
	return text + ":" + name.DefaultTag
}

// Mirror is a registry that has another's images, or those of a part of it.
type Mirror struct {
	// Source is what images are named by: a registry, or one with the first part of a repository's name.
	Source string
	// Target is asked in its place, before it.
	Target string
}

// ParseMirror reads SOURCE=MIRROR.
func ParseMirror(text string) (Mirror, error) {
	source, target, ok := strings.Cut(text, "=")
	m := Mirror{Source: strings.TrimSuffix(source, "/"), Target: strings.TrimSuffix(target, "/")}
	if !ok || !isPrefix(m.Source) || !isPrefix(m.Target) {
		return m, fmt.Errorf("%q: want REGISTRY[/PREFIX]=REGISTRY[/PREFIX]", text)
	}
	return m, nil
}

// isPrefix says whether a text is the beginning of images' names: with a registry, without a tag.
func isPrefix(text string) bool {
	if text == "" || strings.Contains(text, "@") {
		return false
	}
	_, err := Reference(text + "/x/x:x")
	return err == nil
}

// places are where to look for an image: its mirrors in order, then where its name says.
func places(ref name.Reference, mirrors []Mirror, plain func(registry string) bool) ([]name.Reference, error) {
	repository := ref.Context().Name()
	var out []name.Reference
	for _, m := range mirrors {
		rest, ok := strings.CutPrefix(repository, canonical(m.Source))
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		at, err := identified(m.Target+rest, ref, plain)
		if err != nil {
			return nil, fmt.Errorf("mirror %s of %s: %w", m.Target, m.Source, err)
		}
		out = append(out, at)
	}
	at, err := identified(repository, ref, plain)
	return append(out, at), err
}

// canonical is a prefix as the library writes it.
func canonical(prefix string) string {
	if registry, rest, _ := strings.Cut(prefix, "/"); registry == "docker.io" {
		return strings.TrimSuffix(name.DefaultRegistry+"/"+rest, "/")
	}
	return prefix
}

// identified is the tag or digest of ref in another repository.
func identified(repository string, ref name.Reference, plain func(registry string) bool) (name.Reference, error) {
	separator := ":"
	if _, ok := ref.(name.Digest); ok {
		separator = "@"
	}
	text := repository + separator + ref.Identifier()
	at, err := Reference(text)
	if err == nil && plain(at.Context().RegistryStr()) {
		return Reference(text, name.Insecure)
	}
	return at, err
}
