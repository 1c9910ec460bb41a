package program

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Invalid flags are reported before the program reads a kubeconfig or connects to a cluster.
func TestNamesInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`"installer" is not of the form <namespace>/<name>`:                    {"--default-account=installer"},
		`for "--default-account" flag: "A" is not a valid ServiceAccount name`: {"--default-account=ns/A"},
		`for "--default-account" flag: "n.s" is not a valid namespace name`:    {"--default-account=n.s/a"},
		`--default-account-namespaces: "A" is not a valid namespace name`:      {"--default-account=ns/a", "--default-account-namespaces=b,A"},
		`--default-account-namespaces: "" is not a valid namespace name`:       {"--default-account=ns/a", "--default-account-namespaces=b,,c"},
		"--default-account-namespaces requires --default-account":              {"--default-account-namespaces=b"},
		`--global-catalog-namespace: Remit is installed in "x"`:                {"--namespace=x", "--global-catalog-namespace=x"},
		`--global-catalog-namespace: "" is not a valid namespace name`:         {"--global-catalog-namespace="},
		`--namespace: "a:b" is not a valid namespace name`:                     {"--namespace=a:b"},
		`unexpected argument "ns/a"`:                                           {"--default-account", "ns/a", "ns/a"},
		"--leader-elect-lease-duration: 0s is invalid":                         {"--leader-elect-lease-duration=0"},
		"--leader-elect-lease-duration: 1.9s is invalid":                       {"--leader-elect-lease-duration=1900ms"},
		"unknown flag: --default-acount":                                       {"--default-acount=ns/a"},
		"kubeconfig":                                                           {"--default-account=ns/a", "--default-account-namespaces=b,c", "--default-account-namespaces=d"},
	} {
		t.Run(want, func(t *testing.T) {
			args = append(args, "--kubeconfig="+filepath.Join(t.TempDir(), "none"))
			require.ErrorContains(t, Program{Name: "test"}.run(t.Context(), args), want)
		})
	}
}

func TestParsesTheDefaultAccount(t *testing.T) {
	account := types.NamespacedName{Namespace: "ns", Name: "a"}
	got, err := (&flagValues{defaultAccount: Account(account), defaultNamespaces: []string{"b", "c"}}).parseDefault()
	require.NoError(t, err)
	require.Equal(t, scoped.Default{Account: account, Namespaces: []string{"b", "c"}}, got)

	got, err = (&flagValues{}).parseDefault()
	require.NoError(t, err)
	require.Equal(t, scoped.Default{}, got)
}

func TestAccountIsAFlagValue(t *testing.T) {
	var a Account
	require.Equal(t, "", a.String())
	require.NoError(t, a.Set("ns/a"))
	require.Equal(t, "ns/a", a.String())
	require.Equal(t, types.NamespacedName{Namespace: "ns", Name: "a"}, a.Key())
	require.NoError(t, a.Set(""), "an empty variable in a Deployment has this value")
	require.Equal(t, Account{}, a)
	require.Error(t, a.Set("a"))
}
