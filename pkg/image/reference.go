package image

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// ErrImage means that an image is invalid, so retrying does not help.
var ErrImage = errors.New("refused image")

// Refuse returns an ErrImage.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrImage, fmt.Errorf(format, args...))
}

// IsDigest reports whether an image's name contains a digest.
func IsDigest(text string) bool { return strings.Contains(text, "@") }

// Reference parses the name of an image. The name must include the registry, because the default registry for short
// names is ambiguous.
func Reference(text string, options ...name.Option) (name.Reference, error) {
	ref, err := name.ParseReference(text, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, fmt.Errorf("image %q: must have the form REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST", text)
	}
	return ref, nil
}

// Tagged adds the default tag to the name of an image that has neither a tag nor a digest.
func Tagged(text string) string {
	last := text[strings.LastIndexByte(text, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return text
	}
	return text + ":" + name.DefaultTag
}

// Mirror configures a registry that mirrors another registry or a part of it.
type Mirror struct {
	// Source is a prefix of image names: a registry, optionally followed by the first part of a repository.
	Source string
	// Target replaces Source in the image names that are tried first.
	Target string
}

// ParseMirror parses SOURCE=MIRROR.
func ParseMirror(text string) (Mirror, error) {
	source, target, ok := strings.Cut(text, "=")
	m := Mirror{Source: strings.TrimSuffix(source, "/"), Target: strings.TrimSuffix(target, "/")}
	if !ok || !isPrefix(m.Source) || !isPrefix(m.Target) {
		return m, fmt.Errorf("%q: must have the form REGISTRY[/PREFIX]=REGISTRY[/PREFIX]", text)
	}
	return m, nil
}

// isPrefix reports whether text is a valid prefix of image names. A prefix includes a registry, but no tag or digest.
func isPrefix(text string) bool {
	if text == "" || strings.Contains(text, "@") {
		return false
	}
	_, err := Reference(text + "/x/x:x")
	return err == nil
}

// places returns the locations at which an image is requested: its mirrors in order, and then its own registry.
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

// canonical returns a prefix of image names in the form that go-containerregistry uses.
func canonical(prefix string) string {
	if registry, rest, _ := strings.Cut(prefix, "/"); registry == "docker.io" {
		return strings.TrimSuffix(name.DefaultRegistry+"/"+rest, "/")
	}
	return prefix
}

// identified returns a reference to the given repository with the tag or digest of ref.
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
