package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// Exit codes of "kubectl remit preflight".
const (
	passed  = 0
	missing = 1
	failed  = 2
)

// preflightOf runs "kubectl remit preflight", asserts the exit code, and returns standard output and standard error.
func preflightOf(t *testing.T, code int, args ...string) (out, notes string) {
	t.Helper()
	out, notes, got := cluster.Remit(t, append([]string{"preflight"}, args...)...)
	require.Equal(t, code, got, "%s\n%s", out, notes)
	return out, notes
}

// awaitPreflightOf is like preflightOf, but repeats the command until it exits with the code, because the API server's authorizer
// observes grants with a delay.
func awaitPreflightOf(tn *env.Tenant, code int, args ...string) (out, notes string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		var got int
		out, notes, got = cluster.Remit(tn.T, append([]string{"preflight"}, args...)...)
		assert.Equal(c, code, got, "%s\n%s", out, notes)
	})
	return out, notes
}

// bundleDir writes a variant of the sample bundle to a new directory and returns the directory.
func bundleDir(t *testing.T, change func(env.Variant)) string {
	t.Helper()
	v, err := env.NewVariant()
	require.NoError(t, err)
	change(v)
	dir := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, v.Write(dir))
	return dir
}

func unchanged(env.Variant) {}

const (
	// confirmed and unconfirmed are parts of the notes about the content of a plan.
	confirmed   = ": confirmed: the bundle from --bundle has the same content"
	unconfirmed = ": not confirmed: CatalogSource "
)

func TestPreflightOfABundleMatchesThePlan(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogSample)
	dir := bundleDir(t, unchanged)
	_, notes := preflightOf(t, failed, dir, "-n", tn.Namespace)
	require.Contains(t, notes, "alternatively, specify an account with --account")

	tn.Group(env.AccountName, tn.Namespace)
	message := tn.PermissionsMissing()
	sub := "subscription/" + tn.Subscription(t).Name
	for _, arg := range []string{dir, sub, "installplan/" + tn.Plan(t).Name} {
		out, notes := preflightOf(t, missing, arg, "-n", tn.Namespace)
		if arg == dir {
			require.Empty(t, notes)
		} else {
			require.Contains(t, notes, unconfirmed)
			_, notes = preflightOf(t, missing, arg, "-n", tn.Namespace, "--bundle", dir)
			require.Contains(t, notes, confirmed)
		}
		for line := range strings.Lines(message) {
			// Another test may have installed the sample's CustomResourceDefinition in the meantime.
			if strings.HasPrefix(line, "- User") && !strings.Contains(line, "customresourcedefinitions") {
				require.Contains(t, out, line, arg)
			}
		}
	}
	_, told, code := cluster.Remit(t, "grant", sub, "-n", tn.Namespace, "--yes")
	require.Equal(t, failed, code)
	require.Contains(t, told, "nothing confirms that InstallPlan ")
	other := bundleDir(t, func(v env.Variant) { v.SetImage("other.example.com/operator") })
	_, told, code = cluster.Remit(t, "grant", sub, "-n", tn.Namespace, "--yes", "--bundle", other)
	require.Equal(t, failed, code)
	require.Contains(t, told, "but the plan requires digest sha256:")
	granted, _, code := cluster.Remit(t, "grant", sub, "-n", tn.Namespace, "--yes", "--bundle", dir)
	require.Zero(t, code, granted)
	tn.Succeeded(bundle.CSV)
	_, told, code = cluster.Remit(t, "grant", sub, "-n", tn.Namespace, "--yes")
	require.Zero(t, code)
	require.Contains(t, told, "has all permissions that ")
	for _, arg := range []string{dir, sub} {
		out, _ := preflightOf(t, passed, arg, "-n", tn.Namespace)
		require.Contains(t, out, "has all permissions that ")
	}
	// Another account has no permissions.
	preflightOf(t, missing, sub, "-n", tn.Namespace, "--account", tn.Namespace+"/default")
}

func TestPreflightListsKindsThatTheClusterDoesNotServe(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	dir := bundleDir(t, func(v env.Variant) {
		v.Add("monitor.yaml", `{apiVersion: monitoring.coreos.com/v7, kind: ServiceMonitor, metadata: {name: m}}`)
	})
	out, _ := preflightOf(t, missing, dir, "-n", tn.Namespace)
	require.Contains(t, out, "ServiceMonitor "+tn.Namespace+"/m: ")
	require.Contains(t, out, "not found on the cluster")
	require.NotContains(t, out, "cannot create resource", "a bundle that cannot be installed needs no permissions")
}

func TestPreflightOfAPlanOfAnySize(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogLarge)
	tn.Group(env.AccountName, tn.Namespace)
	tn.PermissionsMissing()
	sub := "subscription/" + tn.Subscription(t).Name
	_, notes := preflightOf(t, missing, sub, "-n", tn.Namespace)
	require.Contains(t, notes, unconfirmed)
	preflightOf(t, missing, sub, "-n", tn.Namespace, "--account", tn.Namespace+"/default")
	tn.GrantMissing() // another test may have installed the sample's CustomResourceDefinition in the meantime
	tn.Succeeded(bundle.CSV)
	_, notes = preflightOf(t, passed, sub, "-n", tn.Namespace)
	require.Contains(t, notes, unconfirmed)
}

func TestPreflightOfAPlanThatDoesNotContainItsManifests(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := subscribed(t, catalogLarge)
	tn.Group(env.AccountName, tn.Namespace)
	tn.PermissionsMissing()
	ip := tn.Plan(t)
	before := ip.DeepCopy()
	delete(ip.Annotations, names.AnnotationContent)
	require.NoError(t, cluster.Client.Patch(t.Context(), ip, client.MergeFrom(before)))
	sub := "subscription/" + tn.Subscription(t).Name
	out, notes := preflightOf(t, missing, sub, "-n", tn.Namespace)
	require.Contains(t, notes, "the InstallPlan does not contain the manifests of its bundles: using the report in ConfigMap "+tn.Namespace+"/remit-report-"+ip.Name)
	require.NotContains(t, out, "kind: Role")
	require.Contains(t, out, "To print the RBAC that grants this, add -o yaml, and each bundle with --bundle.")

	// Other users can change the report, so it is not a basis for a grant.
	out, notes = preflightOf(t, failed, sub, "-n", tn.Namespace, "-o", "yaml")
	require.Empty(t, out)
	require.Contains(t, notes, "other users can change the report of the InstallPlan")
	_, told, code := cluster.Remit(t, "grant", tn.Namespace+"/"+ip.Name, "--yes")
	require.Equal(t, failed, code)
	require.Contains(t, told, "other users can change its report: specify each bundle with --bundle")
	large := bundleDir(t, variants[catalogLarge])
	out, notes, code = cluster.Remit(t, "grant", sub, "-n", tn.Namespace, "--bundle", large, "-o", "yaml")
	require.Zero(t, code)
	require.Contains(t, notes, confirmed)
	require.Contains(t, out, "kind: Role\n")

	_, notes = preflightOf(t, failed, sub, "-n", tn.Namespace, "--account", tn.Namespace+"/default")
	require.Contains(t, notes, "check the bundle instead")

	tn.GrantMissing() // another test may have installed the sample's CustomResourceDefinition in the meantime
	tn.Succeeded(bundle.CSV)
	out, notes = preflightOf(t, passed, sub, "-n", tn.Namespace)
	require.Contains(t, out, "has all permissions that")
	require.Contains(t, notes, "the InstallPlan does not contain the manifests of its bundles")
}

func TestPreflightWithoutPermissionToReadRBAC(t *testing.T) {
	bounded(t)
	t.Parallel()
	tn := cluster.Tenant(t)
	dir := bundleDir(t, unchanged)
	b, err := env.ReadBundle(os.DirFS(dir))
	require.NoError(t, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, tn.Namespace))
	args := []string{dir, "--account", tn.Account.String()}

	// The administrator is allowed to read RBAC.
	out, notes := preflightOf(t, passed, args...)
	require.Empty(t, notes)

	// The account is allowed to query only its own permissions.
	asAccount := append(args, "--as="+scoped.Username(tn.Account.Namespace, tn.Account.Name))
	self, notes := awaitPreflightOf(tn, passed, asAccount...)
	require.Equal(t, out, self)
	require.Contains(t, notes, "the API server was asked about each rule, because RBAC could not be read")

	// A user who is allowed neither to read RBAC nor to create SubjectAccessReviews gets an error.
	nobody := "nobody-" + tn.Namespace
	_, notes = preflightOf(t, failed, append(args, "--as="+nobody)...)
	require.Contains(t, notes, fmt.Sprintf(`User %q cannot list resource "clusterroles"`, nobody))
	require.Contains(t, notes, `cannot create resource "subjectaccessreviews"`)
	require.Contains(t, notes, "--as="+scoped.Username(tn.Account.Namespace, tn.Account.Name))

	// A user who may create SubjectAccessReviews gets a result for the account.
	tn.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: nobody},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: nobody}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"}})
	asked, _ := awaitPreflightOf(tn, passed, append(args, "--as="+nobody)...)
	require.Equal(t, out, asked)

	// SubjectAccessReviews also find missing permissions.
	preflightOf(t, missing, dir, "--account", tn.Namespace+"/default", "--as="+nobody)
}
