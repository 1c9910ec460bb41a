package env

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// As returns a client that impersonates a user in the given groups and in system:authenticated.
func (c *Cluster) As(t testing.TB, user string, groups ...string) client.WithWatch {
	t.Helper()
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	out, err := client.NewWithWatch(config, client.Options{Scheme: c.Client.Scheme()})
	require.NoError(t, err)
	return out
}
