package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxCredentials is the maximum size of a file with credentials, in bytes: that of a Secret.
const maxCredentials = 1 << 20

// Files names files with credentials for registries, in the format of Docker's configuration. They are read for each pull, so
// that changes take effect without a restart. A file that does not exist contains no credentials: it may be mounted from a
// Secret that is created later. If several entries match an image equally well, that of the first file is used.
type Files []string

var _ authn.Keychain = Files{}

// Resolve implements authn.Keychain.
func (f Files) Resolve(target authn.Resource) (authn.Authenticator, error) {
	credentials, err := f.read()
	if err != nil {
		return nil, err
	}
	return credentials.Resolve(target)
}

// Check returns an error if a file exists but cannot be used.
func (f Files) Check() error {
	_, err := f.read()
	return err
}

func (f Files) read() (*Credentials, error) {
	out := &Credentials{}
	for _, name := range f {
		data, err := readCredentials(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("read credentials: %w", err)
		case !out.addConfig(data):
			return nil, fmt.Errorf("credentials file %q is not a Docker configuration in JSON", name)
		}
	}
	return out, nil
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
