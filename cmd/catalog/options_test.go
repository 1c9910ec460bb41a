package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/cmd/internal/program"
)

func parsed(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	flags := pflag.NewFlagSet("catalog", pflag.ContinueOnError)
	o.add(flags)
	return o, flags.Parse(args)
}

func TestTheAccountThatWritesCustomResourceDefinitions(t *testing.T) {
	o, err := parsed(t, "--crd-account=remit/crds")
	require.NoError(t, err)
	got, err := o.controllers(program.Common{Namespace: "remit"})
	require.NoError(t, err)
	require.Equal(t, types.NamespacedName{Namespace: "remit", Name: "crds"}, got.CRDAccount)
	require.Equal(t, "remit", got.GlobalCatalogNamespace)

	for _, wrong := range []string{"crds", "remit/", "remit/C", "a/b/c"} {
		_, err := parsed(t, "--crd-account="+wrong)
		require.ErrorContains(t, err, `for "--crd-account" flag`)
	}
}

func TestCatalogDirectories(t *testing.T) {
	o, err := parsed(t, "--catalog-directory=a=b", "--catalog-directory=c=d=e")
	require.NoError(t, err)
	got, err := o.controllers(program.Common{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b", "c": "d=e"}, got.Directories)

	for _, wrong := range []string{"a", "=b", "a="} {
		o, err := parsed(t, "--catalog-directory="+wrong)
		require.NoError(t, err)
		_, err = o.controllers(program.Common{})
		require.ErrorContains(t, err, "want IMAGE=DIRECTORY")
	}
}
