package author

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// recorded returns a ClusterServiceVersion and a Subscription that record installer as their account, in a namespace whose
// OperatorGroup has been deleted.
func (s *site) recorded() []client.Object {
	s.Helper()
	og := s.made(installer)
	s.writesCSVs(true, s.alice, s.carol)
	s.writesSubscriptions(true)
	csv := s.csv("csv")
	csv.Annotations = map[string]string{names.AnnotationAccount: s.namespace + "/" + installer}
	require.NoError(s, s.alice.Create(s.Context(), csv))
	sub := s.subscription("sub")
	require.NoError(s, s.alice.Create(s.Context(), sub))
	require.NoError(s, s.recordAs(scoped.Username("remit", "remit-catalog"), sub, installer))
	require.NoError(s, s.admin.Delete(s.Context(), og))
	s.eventually(func(c *assert.CollectT) { // the policies no longer know the OperatorGroup
		assert.ErrorContains(c, s.alice.Create(s.Context(), s.csv("probe"), client.DryRunAll), noGroup)
		assert.ErrorContains(c, s.alice.Create(s.Context(), s.subscription("probe"), client.DryRunAll), noGroupForSubscription)
	})
	return []client.Object{csv, sub}
}

// recordAs sets the condition that names the account of a Subscription, as a user who may write its status.
func (s *site) recordAs(user string, sub *operatorsv1alpha1.Subscription, account string) error {
	s.Helper()
	after := sub.DeepCopy()
	after.Status.LastUpdated = sub.CreationTimestamp
	after.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{
		Type: names.ConditionAuthorUnchecked, Status: corev1.ConditionFalse, Reason: "AccountKnown",
		Message: fmt.Sprintf("ServiceAccount %s/%s installs what this Subscription selects: whoever changes the spec must be allowed to impersonate it", s.namespace, account),
	})
	return s.cluster.As(s.T, user).Status().Patch(s.Context(), after, client.MergeFrom(sub))
}

// While a namespace has no OperatorGroup, a user who may only write its objects could otherwise decide what runs once there is
// one again.
func TestTheLastAccountDecidesWhoChangesASpecWithoutAGroup(t *testing.T) {
	everyProfile(t, func(s *site) {
		for _, obj := range s.recorded() {
			change := func(c client.Client, body string) error {
				return c.Patch(s.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(body)))
			}
			spec := `{"spec":{"displayName":"another","channel":"another"}}`
			s.deniedCSV(change(s.carol, spec), "may not impersonate ServiceAccount <ns>/installer, which the annotation")
			require.NoError(s, change(s.carol, `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/keep"]}}`))
			require.NoError(s, change(s.carol, `{"metadata":{"finalizers":null}}`))
			require.NoError(s, change(s.alice, spec))
		}
	})
}

func TestOnlyUsersOfTheRecordedAccountChangeTheRecord(t *testing.T) {
	everyProfile(t, func(s *site) {
		objs := s.recorded()
		mark := func(c client.Client, account string) error {
			return c.Patch(s.Context(), s.csv("csv"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, names.AnnotationAccount, account)), client.DryRunAll)
		}
		for _, account := range []string{`null`, `""`, `"x"`, `"` + s.namespace + `/boss"`} {
			s.deniedCSV(mark(s.carol, account), "")
		}
		s.deniedCSV(mark(s.alice, `"`+s.namespace+`/boss"`), "may not impersonate ServiceAccount <ns>/installer or <ns>/boss, which the annotation")
		s.deniedCSV(mark(s.cluster.As(s.T, scoped.Username(s.namespace, boss)), `"`+s.namespace+`/boss"`), "may not impersonate ServiceAccount <ns>/installer or <ns>/boss")
		require.NoError(s, mark(s.alice, `null`))
		require.NoError(s, mark(s.admin, `"`+s.namespace+`/boss"`))

		sub := objs[1].(*operatorsv1alpha1.Subscription)
		require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(sub), sub))
		s.deniedCSV(s.recordAs(carol, sub, boss), "only remit-catalog may set the condition AuthorUnchecked")
		s.deniedCSV(s.carol.Status().Patch(s.Context(), sub, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":null}}`))), "only remit-catalog")
		require.NoError(s, s.carol.Status().Patch(s.Context(), sub, client.RawPatch(types.MergePatchType, []byte(`{"status":{"reason":"x"}}`))))
	})
}

// What is recorded while there is an OperatorGroup decides once it is deleted. The binding without parameters checks it.
func TestAuthorsRecordOnlyAccountsThatTheyMayUse(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.writesCSVs(true, s.alice)
		marked := func(name, account string) *operatorsv1alpha1.ClusterServiceVersion {
			csv := s.csv(name)
			csv.Annotations = map[string]string{names.AnnotationAccount: account}
			return csv
		}
		foreign := "may not impersonate ServiceAccount <ns>/boss, which the annotation remit.dev/account"
		s.deniedCSV(s.alice.Create(s.Context(), marked("a", s.namespace+"/"+boss)), foreign)
		for _, account := range []string{"x", "kube-system/x", "remit/remit-default", "/"} {
			require.ErrorContains(s, s.alice.Create(s.Context(), marked("a", account)), csvPolicy, account)
		}
		require.NoError(s, s.alice.Create(s.Context(), marked("a", s.namespace+"/"+installer)))
		require.NoError(s, s.alice.Create(s.Context(), s.csv("b")))
		mark := func(c client.Client, name, account string) error {
			return c.Patch(s.Context(), s.csv(name), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, names.AnnotationAccount, account)))
		}
		for _, name := range []string{"a", "b"} {
			s.deniedCSV(mark(s.alice, name, `"`+s.namespace+`/boss"`), "<ns>/boss, which the annotation remit.dev/account")
			require.NoError(s, mark(s.alice, name, `"`+s.namespace+`/installer"`))
			require.NoError(s, mark(s.alice, name, `null`))
			require.NoError(s, mark(s.admin, name, `"`+s.namespace+`/boss"`))
			s.deniedCSV(s.alice.Patch(s.Context(), s.csv(name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"another"}}`))), "may not impersonate ServiceAccount <ns>/boss")
		}
	})
}

// Users of an earlier, weaker account could otherwise change the spec while an administrator replaces the OperatorGroup.
func TestRemitReplacesTheRecordedAccount(t *testing.T) {
	everyProfile(t, func(s *site) {
		csv := s.recorded()[0]
		olm := s.cluster.As(s.T, scoped.Username("remit", "remit-olm"))
		patch := func(metadata, more string) error {
			body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s/%s"%s}}%s}`, names.AnnotationAccount, s.namespace, boss, metadata, more)
			return olm.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(body)), client.DryRunAll)
		}
		for _, another := range []string{`,"olm.operatorGroup":"x"`, `,"remit.dev/managed-by":"OLM"`} {
			require.ErrorContains(s, patch(another, ""), "remit-olm may", another)
		}
		require.ErrorContains(s, patch("", `,"spec":{"displayName":"another"}`), "denied request")
		finalizers := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s/%s"},"finalizers":["x.example.com/y"]}}`, names.AnnotationAccount, s.namespace, boss)
		require.ErrorContains(s, olm.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(finalizers)), client.DryRunAll), "remit-olm may")
		require.NoError(s, s.admin.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["x.example.com/y"]}}`))))
		unfinalized := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s/%s"},"finalizers":null}}`, names.AnnotationAccount, s.namespace, boss)
		require.ErrorContains(s, olm.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(unfinalized)), client.DryRunAll), "remit-olm may")
		removed := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, names.AnnotationAccount)
		require.ErrorContains(s, olm.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(removed)), client.DryRunAll), "remit-olm may")
		require.NoError(s, patch("", ""))
		// It also records an account that does not exist yet, so that nothing is recorded.
		require.NoError(s, s.admin.Patch(s.Context(), csv.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(removed))))
		require.NoError(s, patch("", ""))
		require.ErrorContains(s, patch(`,"olm.operatorGroup":"x"`, ""), "remit-olm may")
	})
}
