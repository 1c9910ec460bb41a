// Package image maps container images to local executables. An image without an entry is not run; the node stand-in
// simulates its containers.
package image

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Map finds the executable of an image.
type Map struct {
	// Fixed contains the entries from the command line.
	Fixed map[string]string
	// File contains more entries, one IMAGE=EXECUTABLE per line or one JSON object, which override Fixed. It is read for
	// each lookup, so that tests can add mappings later. It need not exist.
	File string
}

// Parse splits IMAGE=EXECUTABLE.
func Parse(entry string) (image, executable string, err error) {
	image, executable, ok := strings.Cut(strings.TrimSpace(entry), "=")
	if !ok || image == "" || executable == "" {
		return "", "", fmt.Errorf("%q is not of the form IMAGE=EXECUTABLE", entry)
	}
	return image, executable, nil
}

// Lookup returns the executable of the image, and whether there is one.
func (m Map) Lookup(image string) (string, bool, error) {
	entries, err := m.read()
	if err != nil {
		return "", false, err
	}
	if exe, ok := entries[image]; ok {
		return exe, true, nil
	}
	exe, ok := m.Fixed[image]
	return exe, ok, nil
}

func (m Map) read() (map[string]string, error) {
	if m.File == "" {
		return nil, nil
	}
	content, err := os.ReadFile(m.File)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(string(content))
}

// decode parses the content of a file in either format. It skips blank lines and lines that begin with #. Later lines
// override earlier ones.
func decode(content string) (map[string]string, error) {
	entries := map[string]string{}
	if content = strings.TrimSpace(content); strings.HasPrefix(content, "{") {
		err := json.Unmarshal([]byte(content), &entries)
		return entries, err
	}
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		image, exe, err := Parse(line)
		if err != nil {
			return nil, err
		}
		entries[image] = exe
	}
	return entries, nil
}
