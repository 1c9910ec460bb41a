package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"sync/atomic"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

const (
	// maxObjectWarnings bounds the number of warnings about one manifest.
	maxObjectWarnings = 20
	// maxKey bounds the length of a key in a warning, in bytes.
	maxKey = 100
	// MaxDocuments bounds the number of YAML documents in the manifests of one bundle, including those that are omitted. The bundles
	// of the corpus have at most twelve more than files.
	MaxDocuments = 2 * MaxManifests
	// maxAliased bounds the number of bytes that aliases add to all documents of one bundle. Decoding them takes time, even if what
	// they add is omitted.
	maxAliased = 2 * MaxContentBytes
)

// Manifests reads the manifests of one bundle, and limits what all of them contain together. Manifests can be read concurrently.
type Manifests struct {
	// Aliases bounds the number of bytes that aliases add to one document.
	Aliases int

	count, aliased atomic.Int64
}

// ReadObjects converts each object in a manifest to JSON and passes it to keep. Everything that reads the files of a bundle
// uses ReadObjects, so that all agree on what a bundle contains. A manifest can have several documents; if a key is repeated,
// its last value applies; and documents that are not Kubernetes objects are omitted, as in OLM v0. The warnings describe
// these cases and begin with the line. keep must limit the number and total size of the objects. ReadObjects ends between two documents
// if ctx ends; the error is then the cause.
func (m *Manifests) ReadObjects(ctx context.Context, manifest []byte, keep func(object []byte) error) (warnings []string, err error) {
	var r objectReader
	documents := 0
	for line, document := range splitDocuments(manifest) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if m.count.Add(1) > MaxDocuments {
			return nil, fmt.Errorf("the manifests of the bundle have more than %d YAML documents, including those that are not Kubernetes objects: remove documents", MaxDocuments)
		}
		documents++
		object, err := r.object(line, document, m)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", documents, err)
		}
		if object == nil {
			continue
		}
		if err := keep(object); err != nil {
			return nil, err
		}
		if r.kept++; r.kept == 2 {
			r.second = line
		}
	}
	switch {
	case r.kept > 1:
		r.warn(r.second, fmt.Sprintf("the manifest contains %d objects, and all of them are used", r.kept))
	case r.kept == 0 && r.omitted == 0:
		r.warn(1, "omitted, because it is empty")
	}
	if r.more > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("and %d more warnings about this manifest", r.more))
	}
	return r.warnings, nil
}

// objectReader reads one manifest.
type objectReader struct {
	// kept and omitted count documents; second is the line of the second object.
	kept, omitted, second int
	// more counts the warnings that are not in warnings.
	warnings []string
	more     int
}

func (r *objectReader) warn(line int, text string) {
	if len(r.warnings) == maxObjectWarnings {
		r.more++
		return
	}
	r.warnings = append(r.warnings, fmt.Sprintf("line %d: %s", line, text))
}

// object converts a document that begins in the given line. It returns nil if the document is not an object.
func (r *objectReader) object(line int, document []byte, all *Manifests) ([]byte, error) {
	if err := all.checkAliases(document); err != nil {
		return nil, err
	}
	object, repeated, err := toJSON(document)
	if err != nil {
		return nil, fmt.Errorf("invalid YAML: %w", err)
	}
	if object = bytes.TrimSpace(object); bytes.Equal(object, []byte("null")) {
		return nil, nil
	}
	is, err := isObject(object)
	if err != nil {
		return nil, err
	}
	if !is {
		r.omitted++
		r.warn(line, "omitted, because it is not a Kubernetes object: it has neither apiVersion nor kind")
		return nil, nil
	}
	shown := min(len(repeated), maxObjectWarnings-len(r.warnings))
	r.more += len(repeated) - shown
	for _, text := range repeated[:shown] {
		at, key := repeatedKey(text)
		r.warn(line-1+at, fmt.Sprintf("key %s is repeated; its last value is used", key))
	}
	return object, nil
}

// checkAliases limits what aliases add to a document, and to all of the bundle.
func (m *Manifests) checkAliases(document []byte) error {
	added, err := checkAliases(document, m.Aliases)
	if err == nil && m.aliased.Add(int64(added)) > maxAliased {
		err = fmt.Errorf("YAML aliases of all documents of the bundle together expand to more than %d bytes", maxAliased)
	}
	return err
}

// isObject reports whether a JSON value has one of the fields that every Kubernetes object has. An object with only one of
// them is kept, so that its author learns what is missing. It returns an error if the value cannot be decoded, for example because
// it is nested too deeply: it may be an object, which must not be omitted.
func isObject(value []byte) (bool, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(value, &fields)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
		return false, nil
	}
	return fields["apiVersion"] != nil || fields["kind"] != nil, err
}

// toJSON converts a document. repeated contains the YAML library's descriptions of repeated keys.
func toJSON(document []byte) (value []byte, repeated []string, err error) {
	value, err = yaml.YAMLToJSONStrict(document)
	if strict, ok := errors.AsType[*yamlv2.TypeError](err); ok {
		value, err = yaml.YAMLToJSON(document)
		return value, strict.Errors, err
	}
	return value, nil, err
}

// repeatedText matches the YAML library's description of a repeated key.
var repeatedText = regexp.MustCompile(`(?s)^line (\d+): key (.*) already set in map$`)

// repeatedKey returns the line within the document, and the quoted key, in the YAML library's description of a repeated key.
func repeatedKey(text string) (line int, key string) {
	parts := repeatedText.FindStringSubmatch(text)
	if parts == nil {
		return 1, "(unknown)"
	}
	line, _ = strconv.Atoi(parts[1])
	key = parts[2]
	if text, err := strconv.Unquote(key); err == nil {
		key = text
	}
	if len(key) > maxKey {
		key = key[:maxKey] + "…"
	}
	return line, strconv.Quote(key)
}

// splitDocuments returns the documents in text that are not blank, each with the number of its first line. Unlike Documents,
// it ends a document at "..." and begins one at "---" followed by content: the YAML library would ignore what follows.
func splitDocuments(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		s := split{text: bytes.TrimPrefix(text, []byte("\ufeff")), first: 1, line: 1}
		for line := range bytes.Lines(s.text) {
			begins, ends := isMarker(line, "---"), isMarker(line, "...")
			// Comments and directives before the first "---" belong to the document that it begins.
			if (ends || begins && (s.begun || s.filled)) && !s.emit(yield) {
				return
			}
			if ends {
				s.from += len("...")
			}
			s.begun = s.begun || begins
			s.filled = s.filled || isContent(line, begins || ends)
			s.at += len(line)
			s.line++
		}
		s.emit(yield)
	}
}

// split is the state of splitDocuments: the document so far is text[from:at] and begins in line first.
type split struct {
	text     []byte
	from, at int
	// line is the number of the current line.
	first, line int
	// begun means that the document has a "---", and filled means that it is not blank.
	begun, filled bool
}

// emit yields the document so far, unless it is blank, and begins another.
func (s *split) emit(yield func(int, []byte) bool) bool {
	from, first, filled := s.from, s.first, s.filled
	s.from, s.first, s.begun, s.filled = s.at, s.line, false, false
	return !filled || yield(first, s.text[from:s.at])
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// isContent reports whether a line contains more than a comment, a directive or the marker that it begins with.
func isContent(line []byte, marked bool) bool {
	if marked {
		line = line[len("---"):]
	}
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && line[0] != '%'
}
