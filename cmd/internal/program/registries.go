package program

import (
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/remit-olm/remit/pkg/image"
)

// Registries holds the values of the flags that determine how images are read.
type Registries struct {
	mirrors     []string
	authorities []string
	plain       []string
}

// Add adds the flags to a flag set.
func (r *Registries) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.mirrors, "registry-mirror", nil,
		"REGISTRY[/PREFIX]=REGISTRY[/PREFIX]: pull images whose names begin with the first value from the second, if available there (repeatable)")
	flags.StringArrayVar(&r.authorities, "registry-ca", nil,
		"FILE: trust these certificate authorities (PEM) for registries, in addition to the system's (repeatable)")
	flags.StringArrayVar(&r.plain, "registry-plain-http", nil,
		"HOST[:PORT] of a registry that may be used without TLS and at any address, including private ones (repeatable)")
}

// Options converts the flags to options; an error names the invalid flag.
func (r *Registries) Options() (image.Options, error) {
	out := image.Options{Plain: r.plain}
	for _, text := range r.mirrors {
		m, err := image.ParseMirror(text)
		if err != nil {
			return out, fmt.Errorf("--registry-mirror %w", err)
		}
		out.Mirrors = append(out.Mirrors, m)
	}
	for _, file := range r.authorities {
		pem, err := os.ReadFile(file)
		if err != nil {
			return out, fmt.Errorf("--registry-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return out, fmt.Errorf("--registry-ca %s: contains no PEM certificate", file)
		}
		out.Authorities = append(out.Authorities, pem)
	}
	return out, nil
}
