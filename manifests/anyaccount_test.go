package manifests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Servers before Kubernetes 1.36 do not serve the kind, and kubectl fails if it is part of what it applies.
func TestNoProfileContainsAMutatingPolicy(t *testing.T) {
	all := installations(t)
	var err error
	all["packages"], err = RenderPackages()
	require.NoError(t, err)
	all["remover"], err = RenderRemover()
	require.NoError(t, err)
	for name, objs := range all {
		for _, obj := range objs {
			require.False(t, strings.HasPrefix(obj.GetKind(), "MutatingAdmissionPolicy"), "%s: %s", name, obj.GetName())
		}
	}
}

// Only compat has a default account, which its authors must be allowed to use, in whichever namespace Remit is installed.
func TestTheDefaultAccountIsPartOfAnyAccountOnlyWithCompat(t *testing.T) {
	for directory, want := range map[string]string{
		"any-account/" + ProfileBounded:                 "",
		"any-account/" + ProfileCompat:                  "namespace('remit').name('remit-default')",
		"testdata/other-namespaces-any-account-bounded": "",
		"testdata/other-namespaces-any-account-compat":  "namespace('platform-operators').name('remit-default')",
	} {
		objs := renderDirectory(t, directory)
		require.Len(t, objs, 2, directory)
		text, err := objs[0].MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, want != "", strings.Contains(string(text), "remit-default"), directory)
		require.Contains(t, string(text), want, directory)
	}
}
