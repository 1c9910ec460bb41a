package oracle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// token matches a JSON Web Token or the beginning of one: two parts that each begin with the encoding of "{".
var token = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}`)

// owners match the claims that identify a token's owner. They are ordered from the last claim in a token to the first,
// so that a truncated token still matches one of them.
var owners = []*regexp.Regexp{
	regexp.MustCompile(`system:serviceaccount:[^"]+`),
	regexp.MustCompile(`"serviceaccount":\{"name":"[^"]+`),
	regexp.MustCompile(`https://kubernetes\.default\.svc`), // the issuer
}

// tokensIn returns the owners of the tokens in a text. It recognizes any token, because tokens contain their owners.
func tokensIn(text []byte) []string {
	if !bytes.Contains(text, []byte(".eyJ")) {
		return nil // every token contains ".eyJ", and searching for it is much cheaper than matching
	}
	var out []string
	for _, found := range token.FindAll(text, -1) {
		_, payload, _ := strings.Cut(string(found), ".")
		decoded, err := base64.RawURLEncoding.DecodeString(payload[:len(payload)/4*4])
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(owners, func(r *regexp.Regexp) bool { return r.Match(decoded) }); i >= 0 {
			out = append(out, string(owners[i].Find(decoded)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var secrets = schema.GroupResource{Resource: "secrets"}

// leaksIn returns the violations of I4 in the objects of a snapshot.
func leaksIn(s *Snapshot) ([]string, error) {
	var out []string
	for resource, body := range s.bodies {
		if resource == secrets {
			continue
		}
		for _, who := range tokensIn(body) {
			out = append(out, fmt.Sprintf("an object of %s contains a token of %s: %s", resource, who, holder(body)))
		}
	}
	list, err := items[corev1.Secret](s, secrets)
	for i := range list {
		if list[i].Type == corev1.SecretTypeServiceAccountToken {
			continue // the control plane created this token on request, and I1 checks its owner's permissions
		}
		for key, data := range list[i].Data {
			for _, who := range tokensIn(data) {
				out = append(out, fmt.Sprintf("Secret %s/%s contains, in key %q, a token of %s", list[i].Namespace, list[i].Name, key, who))
			}
		}
	}
	slices.Sort(out)
	return out, err
}

// strangers returns the objects that contain the canary's text, except those in the canary's own namespaces.
func strangers(s *Snapshot, canary string, homes []string) []string {
	var out []string
	for resource, body := range s.bodies {
		if !bytes.Contains(body, []byte(canary)) {
			continue
		}
		for _, item := range split(body) {
			namespace, name := nameOf(item)
			if bytes.Contains(item, []byte(canary)) && !slices.Contains(homes, namespace) {
				out = append(out, fmt.Sprintf("%s %s/%s contains private content of %q", resource, namespace, name, homes))
			}
		}
	}
	return out
}

func split(body []byte) []json.RawMessage {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	_ = json.Unmarshal(body, &list) // the list was decoded successfully before
	return list.Items
}

func nameOf(item json.RawMessage) (namespace, name string) {
	var object struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(item, &object)
	return object.Metadata.Namespace, object.Metadata.Name
}

// holder returns the name of the first object in a list that contains a token.
func holder(body []byte) string {
	for _, item := range split(body) {
		if len(tokensIn(item)) > 0 {
			namespace, name := nameOf(item)
			return namespace + "/" + name
		}
	}
	return ""
}

// logs reads what Pods have logged since the previous check.
type logs struct {
	dir  string
	read map[string]int64
}

// leaks returns the violations of I4 in the new logs of all Pods, including the canary's text. It starts slightly
// before the end of the previous check, so that it also finds tokens that were only partly logged then.
func (l *logs) leaks(canary string) ([]string, error) {
	const overlap = 4096
	files, err := filepath.Glob(filepath.Join(l.dir, "pods", "*", "*.log"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, file := range files {
		seen := l.read[file]
		from := max(0, seen-overlap)
		text, err := readFrom(file, from)
		if err != nil {
			return nil, err
		}
		if l.read[file] = from + int64(len(text)); l.read[file] == seen {
			continue // nothing new
		}
		if canary != "" && bytes.Contains(text, []byte(canary)) {
			out = append(out, fmt.Sprintf("the log %s contains %q", filepath.Base(filepath.Dir(file)), canary))
		}
		for _, who := range tokensIn(text) {
			out = append(out, fmt.Sprintf("the log %s contains a token of %s", filepath.Base(filepath.Dir(file)), who))
		}
	}
	return out, nil
}

func readFrom(file string, offset int64) ([]byte, error) {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil, nil // its Pod was deleted
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}
