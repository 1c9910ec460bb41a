package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxCredentials is the maximum size of a file with credentials, in bytes. It is the maximum size of a Secret.
const maxCredentials = 1 << 20

// Files names files with credentials for registries, in the format of Docker's configuration. They are read for each pull, so
// that changes take effect without a restart. A file that does not exist contains no credentials: it may be mounted from a
// Secret that is created later. If several entries match an image equally well, the entry of the first file is used.
//
// A file that cannot be read or parsed is treated as missing, because it is unknown which registries it is for. Images that
// need no credentials can still be pulled. If the registry refuses access, the Client's error includes the error of Check. An
// invalid entry affects only the images that it matches.
type Files []string

var _ authn.Keychain = Files{}

// Resolve implements authn.Keychain. It returns an error for an image whose entry is invalid.
func (f Files) Resolve(target authn.Resource) (authn.Authenticator, error) {
	credentials, _ := f.read()
	return credentials.Resolve(target)
}

// Check returns an error if a file exists but cannot be read or parsed.
func (f Files) Check() error {
	_, err := f.read()
	return err
}

// read returns the credentials in all files that can be used, and the errors of the other files.
func (f Files) read() (*Credentials, error) {
	out := &Credentials{}
	var problems []error
	for _, name := range f {
		data, err := readCredentials(name)
		var file struct {
			Auths map[string]json.RawMessage `json:"auths"`
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, fmt.Errorf("read credentials: %w", err))
		case json.Unmarshal(data, &file) != nil:
			problems = append(problems, fmt.Errorf("credentials file %q is not a Docker configuration in JSON", name))
		default:
			for at, entry := range file.Auths {
				out.addEntry(at, entry, name)
			}
		}
	}
	return out, errors.Join(problems...)
}

// addEntry adds one entry of a file. The error for an invalid entry does not contain the entry, because it may contain a
// password.
func (c *Credentials) addEntry(at string, entry json.RawMessage, file string) {
	var config authn.AuthConfig
	invalid := json.Unmarshal(entry, &config) != nil
	c.add(map[string]authn.AuthConfig{at: config})
	if invalid {
		c.entries[len(c.entries)-1].problem = fmt.Errorf("credentials file %q has an invalid entry for this registry", file)
	}
}

func readCredentials(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCredentials+1))
	if err == nil && len(data) > maxCredentials {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxCredentials)
	}
	return data, err
}
