package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/install/serving"
)

func parsed(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	flags := pflag.NewFlagSet("extension", pflag.ContinueOnError)
	o.add(flags)
	return o, flags.Parse(args)
}

func TestParsesTheProviderOfCertificates(t *testing.T) {
	for text, want := range map[string]serving.Provider{
		"remit": serving.ProviderRemit, "cert-manager": serving.ProviderCertManager, "openshift-service-ca": serving.ProviderServiceCA,
	} {
		o, err := parsed(t, "--webhook-certificates="+text)
		require.NoError(t, err)
		got, err := o.controllers(program.Common{})
		require.NoError(t, err)
		require.Equal(t, want, got.Provider)
	}
	_, err := parsed(t, "--webhook-certificates=vault")
	require.ErrorContains(t, err, `for "--webhook-certificates" flag: must be one of remit, cert-manager, openshift-service-ca`)
}

// A Secret from which the file is mounted may be created or repaired later.
func TestParsesFilesWithCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	o, err := parsed(t, "--registry-credentials="+file)
	require.NoError(t, err)
	got, err := o.controllers(program.Common{})
	require.NoError(t, err)
	require.Equal(t, image.Files{file}, got.Keychain)

	require.NoError(t, os.WriteFile(file, []byte("very secret"), 0o600))
	got, err = o.controllers(program.Common{})
	require.NoError(t, err)
	require.Equal(t, image.Files{file}, got.Keychain)
}
