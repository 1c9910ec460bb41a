package author

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
)

const standsForDefault = "may not impersonate ServiceAccount remit/remit-default, the default account that an empty spec.serviceAccountName stands for"

// This is row 58 of the escape suite, with a default account.
func TestClearingTheNameCountsAsNamingTheDefaultAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileCompat)
	og := s.made(installer)
	s.denied(rename(og, "")(s, s.alice), standsForDefault)
	noCommand(s, rename(og, "")(s, s.alice), "let a cluster administrator make this change")
	for _, patch := range []string{`{"spec":{"serviceAccountName":""}}`, `{"spec":{"serviceAccountName":null}}`, `{"spec":null}`} {
		err := s.alice.Patch(t.Context(), s.group("group", ""), client.RawPatch(types.MergePatchType, []byte(patch)))
		s.denied(err, standsForDefault)
	}
	removed := s.applied("v1", "group", installer)
	require.NoError(t, s.alice.Apply(t.Context(), removed, client.FieldOwner("me")))
	require.Equal(t, installer, s.named("group"))

	require.NoError(t, rename(s.read("group"), "")(s, s.admin))
	require.NoError(t, rename(s.read("group"), installer)(s, s.alice), "naming the account again only reduces the group's permissions")
}

// noCommand asserts that a refusal because of the default account suggests no command: whoever may impersonate that account may do
// everything.
func noCommand(s *site, err error, says string) {
	s.Helper()
	require.ErrorContains(s, err, says)
	require.NotContains(s, err.Error(), "kubectl")
	require.NotContains(s, err.Error(), "--verb=impersonate")
}

func TestNoCommandAllowsUsersToUseTheDefaultAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileCompat)
	s.writesSubscriptions(false)
	s.made("")
	s.writesCSVs(true, s.alice)
	for _, obj := range []client.Object{s.csv("x"), s.subscription("x")} {
		noCommand(s, s.alice.Create(t.Context(), obj), "or name a ServiceAccount of the namespace in spec.serviceAccountName of the OperatorGroup")
	}
}

func (s *site) read(name string) *operatorsv1.OperatorGroup {
	s.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(s, s.admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, og))
	return og
}

// Not parallel, because alice's permission would affect the other tests.
func TestUsersWhoMayImpersonateTheDefaultAccountCanClearTheName(t *testing.T) {
	s := newSite(t, manifests.ProfileCompat)
	og := s.made(installer)
	take := s.grantIn("remit", alice, impersonate("remit-default"))
	s.eventually(func(c *assert.CollectT) { assert.NoError(c, rename(og, "")(s, s.alice)) })
	take()
	require.NoError(t, rename(s.read("group"), installer)(s, s.admin))
	s.eventually(func(c *assert.CollectT) {
		empty := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"serviceAccountName":""}}`))
		assert.Error(c, s.alice.Patch(t.Context(), s.group("group", ""), empty, client.DryRunAll), "the permission must be removed again for the other tests")
	})
}

// As in OLM, an OperatorGroup that names no account uses the default account, if one is configured. The compat profile
// accepts this for compatibility (docs/adr/0008).
func TestAGroupIsCreatedWithoutANameAsInOLM(t *testing.T) {
	t.Parallel()
	s := newSite(t, manifests.ProfileCompat)
	require.NoError(t, s.carol.Create(t.Context(), s.group("group", "")))
	s.denied(rename(s.read("group"), boss)(s, s.carol), namesBoss)
	require.NoError(t, s.admin.Delete(t.Context(), s.read("group")))

	// A user who may delete and create groups can therefore bypass the check on clearing the name. test/lockdown tests an
	// installation that also prevents this.
	s.made(installer)
	require.NoError(t, s.alice.Delete(t.Context(), s.read("group")))
	require.NoError(t, s.alice.Create(t.Context(), s.group("group", "")))
}
