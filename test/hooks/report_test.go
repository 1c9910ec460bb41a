package hooks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// The plan reports the missing permissions before anything is written, and the RBAC in the report is sufficient.
func TestReportsMissingWebhookPermissionsAndResumesAfterTheGrant(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Catalog("catalog", image(catalogHooks))
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	tn.Group(env.AccountName, tn.Namespace)
	// The report names the webhooks in addition to everything else that the install needs.
	message := tn.PermissionsMissing()
	for _, part := range []string{
		`"validatingwebhookconfigurations"`, `"mutatingwebhookconfigurations"`, `"v.hooker.remit.dev-`, `"hooker-service"`, `"hooker-service-cert"`,
		"kind: ClusterRole\n", "nothing was written",
	} {
		assert.Contains(t, message, part)
	}
	tn.NothingWritten()
	tn.Paste(message)
	tn.Complete()
	tn.Succeeded(bundle.CSV)
	tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, calledIn(ct, cluster.Client, tn.Namespace)) })
	require.False(t, calledIn(t, cluster.Client, "default"))
}
