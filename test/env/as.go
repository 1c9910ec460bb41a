package env

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AwaitAllowed waits until the API server's authorizer allows the request, because it observes grants with a delay.
func (c *Cluster) AwaitAllowed(t testing.TB, request authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	ask := func() (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: request}
		err := c.Client.Create(t.Context(), review)
		return review.Status.Allowed, err
	}
	if allowed, err := ask(); allowed && err == nil { // Eventually would begin with a pause
		return
	}
	Eventually(t, func(collect *assert.CollectT) {
		allowed, err := ask()
		assert.NoError(collect, err)
		assert.True(collect, allowed, "%+v", request)
	})
}

// As returns a client that impersonates a user in the given groups and in system:authenticated.
func (c *Cluster) As(t testing.TB, user string, groups ...string) client.WithWatch {
	t.Helper()
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	out, err := client.NewWithWatch(config, client.Options{Scheme: c.Client.Scheme()})
	require.NoError(t, err)
	return out
}
