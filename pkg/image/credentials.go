package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// Limits for the pull secrets of an image. Tenants write them, and the credentials are kept as long as the pull takes: an entry takes
// about 160 bytes and up to three times its text, and a Secret of 1 MiB can contain 100,000. With these limits, the credentials of
// an image take less than 2 MiB.
const (
	// maxConfigBytes is the size of one Secret's credentials, and maxTotalBytes that of all Secrets of an image.
	maxConfigBytes, maxTotalBytes = 256 << 10, 512 << 10
	// maxEntries is the number of entries in all Secrets of an image.
	maxEntries = 1_000
)

// Credentials contains credentials from pull secrets or files. The zero value contains none.
type Credentials struct {
	entries []credential
	// bytes is the size of the Secrets that the entries are from.
	bytes int
}

// credential is one entry, which applies to a registry or only to the repositories below a path.
type credential struct {
	host, path string
	config     authn.AuthConfig
	// problem is the reason why the entry cannot be used, or nil.
	problem error
}

var _ authn.Keychain = &Credentials{}

// Add adds the credentials of a Secret. If several entries match an image equally well, the one that was added first is
// used. Errors do not contain the Secret's data. A Secret that exceeds a limit adds nothing.
func (c *Credentials) Add(secret *corev1.Secret) error {
	size := SizeOf(secret)
	switch {
	case size > maxConfigBytes:
		return fmt.Errorf("Secret %q contains %d bytes of credentials, but at most %d are allowed", secret.Name, size, maxConfigBytes)
	case c.bytes+size > maxTotalBytes:
		return fmt.Errorf("with Secret %q, the pull secrets contain %d bytes of credentials, but at most %d are allowed", secret.Name, c.bytes+size, maxTotalBytes)
	}
	entries, err := entriesOf(secret, maxEntries-len(c.entries))
	if errors.Is(err, errTooManyEntries) {
		return fmt.Errorf("with Secret %q, the pull secrets have more than %d entries, which is the limit", secret.Name, maxEntries)
	}
	if err != nil {
		return err
	}
	c.bytes += size
	c.add(entries)
	return nil
}

// SizeOf returns the number of bytes of a Secret's credentials.
func SizeOf(secret *corev1.Secret) int {
	return len(secret.Data[corev1.DockerConfigJsonKey]) + len(secret.Data[corev1.DockerConfigKey])
}

// entriesOf decodes at most max entries of a Secret.
func entriesOf(secret *corev1.Secret, max int) (map[string]authn.AuthConfig, error) {
	file := struct {
		Auths auths `json:"auths"`
	}{auths{max: max}}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file)
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &file.Auths)
	default:
		return nil, fmt.Errorf("Secret %q has type %q, but must have type %s or %s",
			secret.Name, secret.Type, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
	if err != nil && !errors.Is(err, errTooManyEntries) { // the error of a decoder can contain the data
		err = fmt.Errorf("the data of Secret %q does not match its type", secret.Name)
	}
	return file.Auths.entries, err
}

var errTooManyEntries = errors.New("too many entries")

// auths decodes entries until there are more than max. A map would be filled with all entries before they can be counted.
type auths struct {
	max     int
	entries map[string]authn.AuthConfig
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *auths) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return errors.New("not an object")
	}
	if a.entries == nil {
		a.entries = map[string]authn.AuthConfig{}
	}
	for d.More() {
		at, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := at.(string) // keys of objects are strings
		var config authn.AuthConfig
		if err := d.Decode(&config); err != nil {
			return err
		}
		if a.entries[key] = config; len(a.entries) > a.max {
			return errTooManyEntries
		}
	}
	return nil
}

func (c *Credentials) add(auths map[string]authn.AuthConfig) {
	for at, config := range auths {
		host, below, _ := strings.Cut(withoutScheme(at), "/")
		c.entries = append(c.entries, credential{host: hostAlias(host), path: below, config: config})
	}
}

func withoutScheme(at string) string {
	at = strings.TrimPrefix(strings.TrimPrefix(at, "https://"), "http://")
	at = strings.TrimSuffix(at, "/")
	// Docker's config files refer to Docker's own registry as https://index.docker.io/v1/.
	return strings.TrimSuffix(strings.TrimSuffix(at, "/v1"), "/v2")
}

func hostAlias(host string) string {
	if host == "docker.io" || host == "registry-1.docker.io" {
		return name.DefaultRegistry
	}
	return host
}

// Resolve implements authn.Keychain. It uses the entry with the longest matching path; if paths have the same length, a
// literal host takes precedence over a pattern. Without a match, it returns authn.Anonymous. It returns an error if the entry is
// invalid.
func (c *Credentials) Resolve(target authn.Resource) (authn.Authenticator, error) {
	repository, _ := strings.CutPrefix(target.String(), target.RegistryStr())
	repository = strings.Trim(repository, "/")
	var best *credential
	for i := range c.entries {
		e := &c.entries[i]
		if e.matches(target.RegistryStr(), repository) && (best == nil || e.rank() > best.rank()) {
			best = e
		}
	}
	if best == nil {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(best.config), best.problem
}

func (e *credential) rank() int {
	rank := 2 * len(e.path)
	if !strings.Contains(e.host, "*") {
		rank++
	}
	return rank
}

func (e *credential) matches(host, repository string) bool {
	if e.path != "" && repository != e.path && !strings.HasPrefix(repository, e.path+"/") {
		return false
	}
	want, got := strings.Split(e.host, "."), strings.Split(host, ".")
	return len(want) == len(got) && allMatch(want, got)
}

func allMatch(patterns, words []string) bool {
	for i := range patterns {
		if ok, err := path.Match(patterns[i], words[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
