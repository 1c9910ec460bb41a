package author

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// clusters has a cluster for each of the two profiles. None of Remit's programs run there: the API server performs the
// author check.
var clusters = map[string]*env.Cluster{}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	code := start(m)
	for _, c := range clusters {
		if err := c.Stop(); err != nil {
			code = fail(err)
		}
	}
	return code
}

func start(m *testing.M) int {
	for _, profile := range manifests.Profiles() {
		c, err := env.Start(context.Background(), env.Options{
			Profile: profile, Without: []string{names.ServiceAccountCatalog, names.ServiceAccountOLM},
		})
		if err != nil {
			return fail(err)
		}
		clusters[profile] = c
		if err := addExtensions(context.Background(), profile); err != nil {
			return fail(err)
		}
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "author:", err)
	return 1
}

// The accounts and users of every site. alice may impersonate only installer; carol is not allowed to impersonate
// either account.
const (
	installer = "installer"
	boss      = "boss"
	alice     = "alice@example.com"
	carol     = "carol"
)

// site is a namespace in which alice and carol have all permissions on OperatorGroups.
type site struct {
	*testing.T
	cluster      *env.Cluster
	namespace    string
	admin        client.Client
	alice, carol client.Client
}

func newSite(t *testing.T, profile string) *site {
	t.Helper()
	c := clusters[profile]
	s := &site{T: t, cluster: c, namespace: "author-" + rand.String(6), admin: c.Client, alice: c.As(t, alice), carol: c.As(t, carol)}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	for _, name := range []string{installer, boss} {
		s.create(&corev1.ServiceAccount{ObjectMeta: s.meta(name)})
	}
	groups := rbacv1.PolicyRule{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorgroups", "operatorgroups/status"}, Verbs: []string{"*"}}
	s.grant(alice, groups, impersonate(installer))
	s.grant(carol, groups)
	s.eventually(func(c *assert.CollectT) { // the API server's authorizer observes RBAC changes with a delay
		assert.NoError(c, s.alice.Create(t.Context(), s.group("probe", installer), client.DryRunAll))
		assert.ErrorContains(c, s.carol.Create(t.Context(), s.group("probe", boss), client.DryRunAll), policy)
		// Without an OperatorGroup, this also requires the mutating policy.
		assert.NoError(c, s.admin.Create(t.Context(), s.csv("probe"), client.DryRunAll))
	})
	return s
}

// policy is the quoted name of the author check's policy, which every refusal contains.
const policy = "'remit-author-check'"

// eventually repeats the check until it passes, because the API server observes grants with a delay.
func (s *site) eventually(check func(*assert.CollectT)) {
	s.Helper()
	(&env.Tenant{T: s.T}).Eventually(check)
}

func impersonate(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: names, Verbs: []string{"impersonate"}}
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *site) create(obj client.Object) {
	s.Helper()
	require.NoError(s, s.admin.Create(s.Context(), obj))
}

func (s *site) grant(user string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	s.grantIn(s.namespace, user, rules...)
}

// grantIn grants rules in a namespace and returns a function that revokes them.
func (s *site) grantIn(namespace, user string, rules ...rbacv1.PolicyRule) (take func()) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "grant-" + rand.String(6)}
	s.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}
	s.create(binding)
	return func() { require.NoError(s, s.admin.Delete(s.Context(), binding)) }
}

// group returns an OperatorGroup that has not been created yet.
func (s *site) group(name, account string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{
		ObjectMeta: s.meta(name),
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: account, TargetNamespaces: []string{s.namespace}},
	}
}

// made creates an OperatorGroup as the administrator and returns it.
func (s *site) made(account string) *operatorsv1.OperatorGroup {
	s.Helper()
	og := s.group("group", account)
	s.create(og)
	return og
}

// named returns the account that the group currently names.
func (s *site) named(group string) string {
	s.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(s, s.admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: group}, og))
	return og.Spec.ServiceAccountName
}

// denied asserts that the author check refused a request with a message that contains the given text.
func (s *site) denied(err error, says string) {
	s.Helper()
	require.Error(s, err)
	require.True(s, apierrors.IsForbidden(err), "%v", err)
	require.Contains(s, err.Error(), policy)
	require.Contains(s, strings.ReplaceAll(err.Error(), s.namespace+"/", "<ns>/"), says)
}

// rename returns a function that updates the OperatorGroup to name the account.
func rename(og *operatorsv1.OperatorGroup, account string) func(*site, client.Client) error {
	return func(s *site, c client.Client) error {
		next := og.DeepCopy()
		next.Spec.ServiceAccountName = account
		return c.Update(s.Context(), next)
	}
}
