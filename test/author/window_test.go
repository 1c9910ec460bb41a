package author

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	anyAccount = "remit.dev/any-account"
	// windows is how often the tests create an OperatorGroup. Each one is unknown to the policies for a moment.
	windows = 25
)

// everywhere grants rules in all namespaces.
func (s *site) everywhere(user string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	name := user + "-" + s.namespace
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})
}

// next returns a site in a new namespace.
func (s *site) next() *site {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "window-"}}
	s.create(ns)
	out := *s
	out.namespace = ns.Name
	return &out
}

// window returns a site whose users dave and eve may write OperatorGroups and ClusterServiceVersions in all namespaces. dave may
// impersonate all ServiceAccounts, and eve only those that are named installer.
func window(s *site) (dave, eve client.Client) {
	s.Helper()
	dave, eve = s.cluster.As(s.T, "dave-"+s.namespace), s.cluster.As(s.T, "eve-"+s.namespace)
	all := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	s.everywhere("dave-"+s.namespace, all, impersonate())
	s.everywhere("eve-"+s.namespace, all, impersonate(installer))
	s.made(installer)
	s.eventually(func(c *assert.CollectT) { // the API server has observed the permissions and the policies
		assert.NoError(c, dave.Create(s.Context(), s.csv("probe"), client.DryRunAll))
		assert.NoError(c, eve.Create(s.Context(), s.csv("probe"), client.DryRunAll))
	})
	return dave, eve
}

// A file with an OperatorGroup and a ClusterServiceVersion can be applied at once.
func TestAGroupAndACSVAreCreatedAtOnce(t *testing.T) {
	everyProfile(t, func(s *site) {
		dave, _ := window(s)
		for range windows {
			n := s.next()
			require.NoError(s, dave.Create(s.Context(), n.group("group", boss)))
			csv := n.csv("csv")
			require.NoError(s, dave.Create(s.Context(), csv))
			require.Contains(s, csv.Labels, anyAccount)
			plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: n.meta("plan")}
			plan.Spec.Approval, plan.Spec.ClusterServiceVersionNames = operatorsv1alpha1.ApprovalManual, []string{}
			require.NoError(s, dave.Create(s.Context(), plan))
		}
	})
}

// A user who may use another account of the namespace, but not the one that the OperatorGroup names, gains nothing from the moment
// in which the API server does not know the OperatorGroup: neither by a new object, nor by a change to an existing one.
func TestTheMomentAfterAGroupIsCreatedCannotBeUsed(t *testing.T) {
	everyProfile(t, func(s *site) {
		dave, eve := window(s)
		patch := func(n *site, body string) error {
			return eve.Patch(s.Context(), n.csv("csv"), client.RawPatch(types.MergePatchType, []byte(body)))
		}
		for i := range windows {
			n := s.next()
			labeled := n.csv("labeled")
			labeled.Labels = map[string]string{anyAccount: ""}
			require.NoError(s, dave.Create(s.Context(), n.group("group", boss)))
			require.Error(s, eve.Create(s.Context(), n.csv("plain")), "%d", i)
			require.Error(s, eve.Create(s.Context(), labeled), "%d", i)
			require.NoError(s, dave.Create(s.Context(), n.csv("csv")))

			n = s.next()
			require.NoError(s, dave.Create(s.Context(), n.csv("csv")), "an author who may use every account needs no OperatorGroup")
			require.NoError(s, dave.Create(s.Context(), n.group("group", boss)))
			require.ErrorContains(s, patch(n, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, anyAccount)), csvPolicy)
			require.ErrorContains(s, patch(n, `{"spec":{"displayName":"another"}}`), csvPolicy)
			require.ErrorContains(s, patch(n, fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"spec":{"displayName":"another"}}`, anyAccount)), csvPolicy)
			require.NoError(s, patch(n, `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/keep"]}}`))
			require.NoError(s, patch(n, `{"metadata":{"finalizers":null}}`))
		}
	})
}

// The default account is one of the accounts that may install an object. A user who may impersonate only those of the namespace
// is checked as if there was no label.
func TestAnyAccountIncludesTheDefaultAccount(t *testing.T) {
	everyProfile(t, func(s *site) {
		s.made(installer)
		s.grant(carol, impersonate())
		s.writesCSVs(true, s.carol)
		labeled := s.csv("labeled")
		labeled.Labels = map[string]string{anyAccount: ""}
		s.eventually(func(c *assert.CollectT) {
			assert.NoError(c, s.carol.Create(s.Context(), s.csv("x"), client.DryRunAll))
		})
		err := s.carol.Create(s.Context(), labeled, client.DryRunAll)
		if s.cluster.IsCompat() {
			s.deniedCSV(err, "and ServiceAccount remit/remit-default, as the label remit.dev/any-account")
		} else {
			require.NoError(s, err)
		}
	})
}

func TestTheLabelOfAnyAccountNamesWhatItRequires(t *testing.T) {
	everyProfile(t, func(s *site) {
		dave, eve := window(s)
		labeled := s.csv("labeled")
		labeled.Labels = map[string]string{anyAccount: ""}
		s.deniedCSV(eve.Create(s.Context(), labeled), "may not impersonate every ServiceAccount of namespace "+s.namespace)
		require.NoError(s, dave.Create(s.Context(), labeled))
		remove := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, anyAccount))
		s.deniedCSV(eve.Patch(s.Context(), s.csv("labeled"), remove), "may not impersonate every ServiceAccount of namespace "+s.namespace)
		require.NoError(s, dave.Patch(s.Context(), s.csv("labeled"), remove))
		require.NoError(s, eve.Patch(s.Context(), s.csv("labeled"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"displayName":"another"}}`))))
	})
}
