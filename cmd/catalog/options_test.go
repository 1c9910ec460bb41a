package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/cmd/internal/program"
	"github.com/remit-olm/remit/pkg/image"
)

func parsed(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	flags := pflag.NewFlagSet("catalog", pflag.ContinueOnError)
	o.add(flags)
	return o, flags.Parse(args)
}

func TestParsesTheCRDAccount(t *testing.T) {
	o, err := parsed(t, "--crd-account=remit/crds")
	require.NoError(t, err)
	got, err := o.controllers(program.Common{Namespace: "remit", CatalogNamespace: "remit-catalogs"})
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "remit", Name: "crds"}, got.CRDAccount)
	require.Equal(t, "remit-catalogs", got.GlobalCatalogNamespace)

	for _, wrong := range []string{"crds", "remit/", "remit/C", "a/b/c"} {
		_, err := parsed(t, "--crd-account="+wrong)
		require.ErrorContains(t, err, `for "--crd-account" flag`)
	}
}

func TestParsesTheWorkloadUser(t *testing.T) {
	for _, row := range []struct {
		args []string
		want int64
	}{{nil, 1001}, {[]string{"--workload-user-id=0"}, 0}, {[]string{"--workload-user-id=65532"}, 65532}} {
		o, err := parsed(t, row.args...)
		require.NoError(t, err)
		got, err := o.controllers(program.Common{})
		require.NoError(t, err)
		require.Equal(t, row.want, got.WorkloadUser)
	}
	o, err := parsed(t, "--workload-user-id=-1")
	require.NoError(t, err)
	_, err = o.controllers(program.Common{})
	require.ErrorContains(t, err, "--workload-user-id -1: must not be negative")
}

func TestParsesCatalogDirectories(t *testing.T) {
	o, err := parsed(t, "--catalog-directory=a=b", "--catalog-directory=c=d=e")
	require.NoError(t, err)
	got, err := o.controllers(program.Common{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b", "c": "d=e"}, got.Directories)

	for _, wrong := range []string{"a", "=b", "a="} {
		o, err := parsed(t, "--catalog-directory="+wrong)
		require.NoError(t, err)
		_, err = o.controllers(program.Common{})
		require.ErrorContains(t, err, "must have the form IMAGE=DIRECTORY")
	}
}

func TestParsesRegistryFlags(t *testing.T) {
	o, err := parsed(t, "--registry-mirror=quay.io/team=mirror.example.com/quay/", "--registry-mirror=docker.io=localhost:5000", "--registry-plain-http=localhost:5000")
	require.NoError(t, err)
	got, err := o.controllers(program.Common{})
	require.NoError(t, err)
	require.Equal(t, image.Options{
		Mirrors: []image.Mirror{{Source: "quay.io/team", Target: "mirror.example.com/quay"}, {Source: "docker.io", Target: "localhost:5000"}},
		Plain:   []string{"localhost:5000"},
	}, got.Images)

	o, err = parsed(t, "--private-registry=10.0.0.0/8", "--private-registry=registry.local:5000")
	require.NoError(t, err)
	got, err = o.controllers(program.Common{})
	require.NoError(t, err)
	want, err := image.ParsePrivate([]string{"10.0.0.0/8", "registry.local:5000"})
	require.NoError(t, err)
	require.Equal(t, want, got.Images.Private)

	none := filepath.Join(t.TempDir(), "ca.pem")
	for arg, want := range map[string]string{
		"--registry-mirror=quay.io":          "must have the form REGISTRY[/PREFIX]=REGISTRY[/PREFIX]",
		"--registry-mirror=quay.io=":         "must have the form REGISTRY[/PREFIX]=REGISTRY[/PREFIX]",
		"--registry-mirror=team=example.com": "must have the form REGISTRY[/PREFIX]=REGISTRY[/PREFIX]",
		"--private-registry=10.0.0.0/33":     "must be a CIDR or HOST[:PORT]",
		"--registry-ca=" + none:              "no such file",
		"--registry-ca=options_test.go":      "contains no PEM certificate",
	} {
		o, err := parsed(t, arg)
		require.NoError(t, err)
		_, err = o.controllers(program.Common{})
		require.ErrorContains(t, err, want)
	}
}

func TestReadsTheClusterDomainFromResolvConf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	require.Empty(t, clusterDomain(file))
	require.NoError(t, os.WriteFile(file, []byte("nameserver 10.96.0.10\nsearch remit.svc.k8s.example svc.k8s.example. k8s.example\noptions ndots:5\n"), 0o600))
	require.Equal(t, "k8s.example", clusterDomain(file))
}
