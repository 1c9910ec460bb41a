package image

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// Limits for the pull secrets of an image. Tenants write them, and the credentials are kept as long as the pull takes: an entry takes
// about 160 bytes, and a Secret of 1 MiB can contain 100,000.
const maxConfigBytes, maxEntries = 256 << 10, 1_000

// Credentials contains credentials from pull secrets or files. The zero value contains none.
type Credentials struct{ entries []credential }

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
	ok, before := false, len(c.entries)
	if size := len(secret.Data[corev1.DockerConfigJsonKey]) + len(secret.Data[corev1.DockerConfigKey]); size > maxConfigBytes {
		return fmt.Errorf("Secret %q contains %d bytes of credentials, but at most %d are allowed", secret.Name, size, maxConfigBytes)
	}
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		ok = c.addConfig(secret.Data[corev1.DockerConfigJsonKey])
	case corev1.SecretTypeDockercfg:
		var auths map[string]authn.AuthConfig
		ok = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &auths) == nil
		c.add(auths)
	default:
		return fmt.Errorf("Secret %q has type %q, but must have type %s or %s",
			secret.Name, secret.Type, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
	if !ok {
		return fmt.Errorf("the data of Secret %q does not match its type", secret.Name)
	}
	if n := len(c.entries); n > maxEntries {
		c.entries = slices.Clip(c.entries[:before])
		return fmt.Errorf("with Secret %q, the pull secrets have %d entries, but at most %d are allowed", secret.Name, n, maxEntries)
	}
	return nil
}

// addConfig adds the credentials of a Docker configuration, and reports whether data is a Docker configuration.
func (c *Credentials) addConfig(data []byte) bool {
	var file struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(data, &file) != nil {
		return false
	}
	c.add(file.Auths)
	return true
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
