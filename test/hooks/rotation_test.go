package hooks

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

const (
	// shortLife is the lifetime of a certificate. A third of it must suffice to roll out a Pod on a slow machine.
	shortLife = 75 * time.Second
	// rotations is the default number of rotations. The environment variable ROTATIONS overrides it.
	rotations = 2
)

// The API server calls the webhook while certificates with a short lifetime are rotated. TestTenExpiriesByTheClock
// covers more than ten years with a simulated clock.
func TestNoCallFailsWhileCertificatesAreRotated(t *testing.T) {
	t.Parallel()
	want := rotations
	if given := os.Getenv("ROTATIONS"); given != "" {
		var err error
		want, err = strconv.Atoi(given)
		require.NoError(t, err)
	}
	c := ownCluster(t, manifests.Args{Deployment: names.ServiceAccountOLM, Args: []string{"--serving-certificate-life=" + shortLife.String()}})
	tn := c.Tenant(t)
	op := operator(1)
	grant(tn, op, tn.Namespace)
	tn.Group(env.AccountName, tn.Namespace)
	install(tn, op)
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, c.Client, tn.Namespace)) })

	l := startLoad(t, c, tn.Namespace)
	begun := time.Now()
	served := authority(t, tn)
	for range want {
		require.Eventually(t, func() bool { return authority(t, tn) != served }, 3*shortLife, 100*time.Millisecond)
		served = authority(t, tn)
	}
	tn.Eventually(func(ct *assert.CollectT) {
		secret := &corev1.Secret{}
		assert.NoError(ct, tn.Get(cert.SecretName(pkg), secret))
		assert.NotContains(ct, secret.Data, "previous."+cert.KeyCA, "the last rollout must have completed")
	})
	l.end(strconv.Itoa(want) + " rotations in " + time.Since(begun).Round(time.Second).String())
}

// authority returns the hash of the CA that issued the operator's certificate.
func authority(t *testing.T, tn *env.Tenant) string {
	t.Helper()
	secret := &corev1.Secret{}
	err := tn.Cluster.Client.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Namespace: tn.Namespace, Name: cert.SecretName(pkg)}, secret)
	require.NoError(t, err)
	return cert.Hash(secret.Data[cert.KeyCA])
}
