package env

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/audit"
)

const (
	// Patience is how long Eventually waits. It is far longer than needed on an idle machine, because the machine may be busy with
	// other work.
	Patience = 3 * time.Minute
	tick     = 50 * time.Millisecond
	// Eventually's pause before an attempt grows by pauseStep each time, up to maxPause.
	pauseStep, maxPause = 10 * time.Millisecond, 200 * time.Millisecond
	// AccountName is the name of every tenant's ServiceAccount.
	AccountName = "installer"
)

// Tenant is a test's namespace with an account. In the profile compat, the account is the default account.
type Tenant struct {
	T         testing.TB
	Cluster   *Cluster
	Namespace string
	Account   types.NamespacedName
	// User, if set, is the user that receives the permissions of a Piece instead of the account.
	User string
	// Since is an offset in the audit log before which there are no requests from the account; the default is the
	// beginning.
	Since int64
}

// Tenant creates a namespace with a unique name and an account, which is enrolled but has no permissions. In the profile
// compat, the account is the default account, which has all permissions.
func (c *Cluster) Tenant(t testing.TB) *Tenant {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	if len(name) > 40 {
		name = name[:40]
	}
	tn := &Tenant{T: t, Cluster: c}
	var err error
	tn.Since, err = audit.End(c.AuditLog)
	require.NoError(t, err)
	// The API server generates another name if the first one exists, which happens in one of eight runs with 2,000 namespaces.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: strings.Trim(name, "-") + "-"}}
	tn.Create(namespace)
	tn.Namespace = namespace.Name
	if c.IsCompat() {
		tn.Account = types.NamespacedName{Namespace: c.Home, Name: "remit-default"}
		return tn
	}
	tn.Account = types.NamespacedName{Namespace: tn.Namespace, Name: AccountName}
	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(AccountName)})
	tn.Enroll()
	return tn
}

// Other creates another, empty namespace for the tenant.
func (tn *Tenant) Other(labels map[string]string) string {
	tn.T.Helper()
	name := tn.Namespace + "-" + rand.String(3)
	tn.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	return name
}

// Meta returns metadata in the tenant's namespace.
func (tn *Tenant) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: tn.Namespace, Name: name}
}

// Create creates an object as the cluster administrator.
func (tn *Tenant) Create(obj client.Object) {
	tn.T.Helper()
	require.NoError(tn.T, tn.CreateAs(tn.Cluster.Client, obj))
}

// CreateAs creates an object with the client. It repeats the request while the API server's admission policies have not
// observed a new OperatorGroup yet.
func (tn *Tenant) CreateAs(c client.Client, obj client.Object) error {
	tn.T.Helper()
	var err error
	tn.Eventually(func(t *assert.CollectT) {
		err = c.Create(tn.T.Context(), obj)
		assert.False(t, preflight.IsPolicyNotReady(err), "%v", err)
	})
	return err
}

// Get reads an object in the tenant's namespace.
func (tn *Tenant) Get(name string, obj client.Object) error {
	return tn.Cluster.Client.Get(tn.T.Context(), client.ObjectKey{Namespace: tn.Namespace, Name: name}, obj)
}

// Enroll enrolls the account, so that Remit may request its tokens.
func (tn *Tenant) Enroll() {
	tn.T.Helper()
	for _, obj := range scoped.Enrollment(tn.Account, tn.Cluster.Home) {
		tn.Create(obj)
	}
}

// Withdraw reverts the enrollment.
func (tn *Tenant) Withdraw() {
	tn.T.Helper()
	for _, obj := range scoped.Enrollment(tn.Account, tn.Cluster.Home) {
		require.NoError(tn.T, tn.Cluster.Client.Delete(tn.T.Context(), obj))
	}
}

// IsCompat reports whether an OperatorGroup without a ServiceAccount uses the default account.
func (c *Cluster) IsCompat() bool { return c.Profile == manifests.ProfileCompat }

// GroupAccount returns the spec.serviceAccountName of an OperatorGroup that uses the tenant's account. It returns "" for the
// default account.
func (tn *Tenant) GroupAccount() string {
	if tn.Cluster.IsCompat() {
		return ""
	}
	return AccountName
}

// Group creates the namespace's OperatorGroup. Without targets it selects all namespaces. AccountName stands for the
// tenant's account.
func (tn *Tenant) Group(account string, targets ...string) *operatorsv1.OperatorGroup {
	tn.T.Helper()
	if account == AccountName {
		account = tn.GroupAccount()
	}
	og := &operatorsv1.OperatorGroup{
		ObjectMeta: tn.Meta("group"),
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: account, TargetNamespaces: targets},
	}
	tn.Create(og)
	return og
}

// Catalog creates a CatalogSource with an image whose content comes from a directory.
func (tn *Tenant) Catalog(name, image string) {
	tn.T.Helper()
	tn.Create(&operatorsv1alpha1.CatalogSource{
		ObjectMeta: tn.Meta(name),
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: image},
	})
}

// Subscribe creates a Subscription to a package from a catalog in the same namespace.
func (tn *Tenant) Subscribe(catalog, pkg, channel string, edit ...func(*operatorsv1alpha1.SubscriptionSpec)) *operatorsv1alpha1.Subscription {
	tn.T.Helper()
	spec := &operatorsv1alpha1.SubscriptionSpec{
		CatalogSource: catalog, CatalogSourceNamespace: tn.Namespace, Package: pkg, Channel: channel,
	}
	for _, e := range edit {
		e(spec)
	}
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: tn.Meta(pkg), Spec: spec}
	tn.Create(sub)
	return sub
}

// Grant grants the account rules in a namespace, or cluster-wide for rbac.ClusterScope. Deleting the returned
// binding revokes them. The default account already has all permissions.
func (tn *Tenant) Grant(namespace string, rules ...rbacv1.PolicyRule) client.Object {
	tn.T.Helper()
	if tn.Cluster.IsCompat() {
		return nil
	}
	name := "grant-" + tn.Namespace + "-" + rand.String(5)
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Account.Namespace, Name: tn.Account.Name}}
	var role, binding client.Object = &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}
	if namespace == rbac.ClusterScope {
		role, binding = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}
	}
	tn.Create(role)
	tn.Create(binding)
	return binding
}

// GrantAll grants the account all permissions in a report returned by Needs.
func (tn *Tenant) GrantAll(report preflight.Report) {
	tn.T.Helper()
	for _, s := range report.Scopes() {
		tn.Grant(s.Namespace, s.Rules...)
	}
}

// Needs returns a report of the permissions that an account without any permissions would need in order to install a
// bundle into the namespace.
func (tn *Tenant) Needs(b *bundle.Bundle, pkg string, targets ...string) preflight.Report {
	tn.T.Helper()
	report, err := preflight.Required(scoped.ServiceAccountIdentity(tn.Account), b, build.Scope{Namespace: tn.Namespace, Package: pkg, Targets: targets})
	require.NoError(tn.T, err)
	return report
}

// Eventually waits until check passes.
func (tn *Tenant) Eventually(check func(c *assert.CollectT)) {
	tn.T.Helper()
	Eventually(tn.T, check)
}

// Eventually waits until check passes. Attempts start about 60 ms apart at first and 200 ms apart later, because on a busy machine,
// frequent requests would slow down what the test waits for.
func Eventually(t testing.TB, check func(c *assert.CollectT)) {
	t.Helper()
	pause := time.Duration(0)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		time.Sleep(pause)
		pause = min(pause+pauseStep, maxPause)
		check(c)
	}, Patience, tick)
}

// Plan returns the only InstallPlan in the namespace.
func (tn *Tenant) Plan(c assert.TestingT) *operatorsv1alpha1.InstallPlan {
	list := &operatorsv1alpha1.InstallPlanList{}
	assert.NoError(c, tn.Cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	if !assert.Len(c, list.Items, 1) {
		return &operatorsv1alpha1.InstallPlan{}
	}
	return &list.Items[0]
}

// ReadBundle parses the bundle at the root of a file system.
func ReadBundle(fsys fs.FS) (*bundle.Bundle, error) {
	return fbc.ReadBundle(context.Background(), fsys)
}
