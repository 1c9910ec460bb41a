package enroll

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
)

// extensionSite has a name for a ClusterExtension and a cluster administrator.
type extensionSite struct {
	*site
	extension, root string
}

const remitExtension = "system:serviceaccount:remit:" + names.ServiceAccountExtension

func newExtensionSite(t *testing.T) *extensionSite {
	t.Helper()
	suffix := rand.String(6)
	s := &extensionSite{site: newSite(t), extension: "demo-" + suffix, root: "root-" + suffix}
	s.createInCluster(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.root}, Subjects: []rbacv1.Subject{user(s.root)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
	s.can(true, s.root, attributes("*", "*", "*", ""))
	for _, obj := range scoped.ExtensionEnrollment(scoped.Identity{Extension: s.extension}, names.DefaultNamespace, scoped.ImpersonationConstrained) {
		s.deleteLater(obj)
	}
	return s
}

// deleteLater deletes a cluster-scoped object at the end of the test, if it exists.
func (s *extensionSite) deleteLater(obj client.Object) {
	s.Cleanup(func() { _ = s.Delete(context.WithoutCancel(s.Context()), obj) })
}

func (s *extensionSite) createInCluster(obj client.Object) {
	s.Helper()
	s.create(obj)
	s.deleteLater(obj)
}

func attributes(verb, group, resource, name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Name: name}
}

// can waits until the API server's authorizer allows the request, or refuses it.
func (s *extensionSite) can(want bool, user string, request authorizationv1.ResourceAttributes) {
	s.Helper()
	(&env.Tenant{T: s.T}).Eventually(func(c *assert.CollectT) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &request}}
		assert.NoError(c, s.Create(s.Context(), review))
		assert.Equal(c, want, review.Status.Allowed, "%s: %v", user, request)
	})
}

func (s *extensionSite) enroll(args ...string) string {
	s.Helper()
	out, err := s.run(NewCommand(), s.root, append([]string{"clusterextension", s.extension}, args...)...)
	require.NoError(s, err, out)
	return out
}

func (s *extensionSite) unenroll(args ...string) string {
	s.Helper()
	out, err := s.run(NewUnenrollCommand(), s.root, append([]string{"clusterextension", s.extension}, args...)...)
	require.NoError(s, err, out)
	return out
}

func TestEnrollsTheUserOfAClusterExtension(t *testing.T) {
	s := newExtensionSite(t)
	name := "remit-extension-enrollment-" + s.extension
	created := "clusterrole.rbac.authorization.k8s.io/" + name + " created\nclusterrolebinding.rbac.authorization.k8s.io/" + name + " created\n"
	require.Equal(t, created, s.enroll())
	synthetic := names.UserExtensionPrefix + s.extension
	const group = "authentication.k8s.io"
	s.can(true, remitExtension, attributes("impersonate:user-info", group, "users", synthetic))
	s.can(true, remitExtension, attributes("impersonate:user-info", group, "groups", names.GroupExtensions))
	s.can(true, remitExtension, attributes("impersonate-on:user-info:patch", "apps", "deployments", "x"))
	s.can(false, remitExtension, attributes("impersonate-on:user-info:update", "apps", "deployments", "x"))
	s.can(false, remitExtension, attributes("impersonate:user-info", group, "users", synthetic+"x"))
	s.can(false, remitExtension, attributes("impersonate", "", "users", synthetic))
	s.can(false, remitExtension, attributes("get", "", "pods", ""))
	s.can(false, synthetic, attributes("get", "", "pods", ""))
	s.can(false, olm, attributes("impersonate:user-info", group, "users", synthetic))
	require.Equal(t, strings.ReplaceAll(created, "created", "unchanged"), s.enroll(), "again")

	binding := &rbacv1.ClusterRoleBinding{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Name: name}, binding))
	binding.Subjects = nil
	require.NoError(t, s.Update(t.Context(), binding))
	require.Contains(t, s.enroll(), "clusterrolebinding.rbac.authorization.k8s.io/"+name+" configured\n", "an incomplete enrollment")

	deleted := "clusterrolebinding.rbac.authorization.k8s.io/" + name + " deleted\nclusterrole.rbac.authorization.k8s.io/" + name + " deleted\n"
	require.Equal(t, deleted, s.unenroll())
	s.can(false, remitExtension, attributes("impersonate:user-info", group, "users", synthetic))
	require.Equal(t, strings.ReplaceAll(deleted, "deleted", "not found"), s.unenroll(), "again")
}

func TestKeepsTheFormOfAnEnrollment(t *testing.T) {
	s := newExtensionSite(t)
	synthetic := names.UserExtensionPrefix + s.extension
	note := "note: this enrollment is not limited to the verbs that Remit uses; it allows every request as " + synthetic + "\n"
	out := s.enroll("--impersonation=legacy")
	require.Contains(t, out, note)
	s.can(true, remitExtension, attributes("impersonate", "", "users", synthetic))
	s.can(true, remitExtension, attributes("impersonate", "", "groups", names.GroupExtensions))
	s.can(false, remitExtension, attributes("impersonate", "", "users", "admin"))

	require.Equal(t, strings.ReplaceAll(out, "created", "unchanged"), s.enroll())
	_, err := s.run(NewCommand(), s.root, "clusterextension", s.extension, "--impersonation=constrained")
	require.ErrorContains(t, err, "ClusterRole remit-extension-enrollment-"+s.extension+" already exists and was not created by enroll: it grants")
	require.Contains(t, s.unenroll(), "clusterrole.rbac.authorization.k8s.io/remit-extension-enrollment-"+s.extension+" deleted")
	require.NotContains(t, s.enroll(), "note:", "the API server supports constrained impersonation")
}

func TestLetsAuthorsInstallAClusterExtension(t *testing.T) {
	s := newExtensionSite(t)
	out := s.enroll("--author", "alice-"+s.extension, "--author-group", "team")
	require.Contains(t, out, "clusterrolebinding.rbac.authorization.k8s.io/remit-extension-author-"+s.extension+":alice-"+s.extension+" created\n")
	require.Contains(t, out, "clusterrole.rbac.authorization.k8s.io/remit-extension-author-"+s.extension+":group:team created\n")
	s.can(true, "alice-"+s.extension, attributes("install", "olm.operatorframework.io", "clusterextensions", s.extension))
	s.can(false, "alice-"+s.extension, attributes("install", "olm.operatorframework.io", "clusterextensions", "other"))
	s.can(false, "alice-"+s.extension, attributes("create", "olm.operatorframework.io", "clusterextensions", ""))
	require.NotContains(t, s.unenroll("--author", "alice-"+s.extension, "--author-group", "team"), "not found")
	s.can(false, "alice-"+s.extension, attributes("install", "olm.operatorframework.io", "clusterextensions", s.extension))
}

func TestDoesNotChangeClusterRolesOfOthers(t *testing.T) {
	s := newExtensionSite(t)
	meta := metav1.ObjectMeta{Name: "remit-extension-enrollment-" + s.extension}
	s.createInCluster(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}}})
	s.createInCluster(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{user("mallory")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}})
	for _, cmd := range []*cobra.Command{NewCommand(), NewUnenrollCommand()} {
		_, err := s.run(cmd, s.root, "clusterextension", s.extension, "--author", alice)
		require.ErrorContains(t, err, "ClusterRole "+meta.Name+` already exists and was not created by enroll: it grants {apiGroups: [""], resources: ["users"], verbs: ["impersonate"]}`)
		require.ErrorContains(t, err, "ClusterRoleBinding "+meta.Name+` already exists and was not created by enroll: it names User "mallory"`)
		require.Error(t, s.Get(t.Context(), client.ObjectKey{Name: "remit-extension-author-" + s.extension + ":" + alice}, &rbacv1.ClusterRole{}), "nothing was written")
	}
}

func TestADryRunForAClusterExtensionSendsNoRequests(t *testing.T) {
	const note = "note: constrained impersonation requires Kubernetes 1.36; for an older API server, use --impersonation=legacy\n"
	for args, want := range map[string][]string{
		"":                              {note, "clusterrole.rbac.authorization.k8s.io/remit-extension-enrollment-demo created (dry run)\n"},
		"-o yaml":                       {"- impersonate:user-info\n", "- impersonate-on:user-info:create\n", "  - olm:clusterextension:demo\n", "  namespace: remit\n"},
		"--impersonation=legacy -oyaml": {"- impersonate\n", "  - olm:clusterextensions\n"},
		"--author=a --remit-namespace=other -o json": {`"remit-extension-author-demo:a"`, `"namespace": "other"`, `"install"`},
	} {
		var out bytes.Buffer
		cmd := NewCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(append([]string{"clusterextension", "demo", "--dry-run=client", "--server=https://127.0.0.1:1"}, strings.Fields(args)...))
		require.NoError(t, cmd.ExecuteContext(t.Context()), args)
		for _, w := range want {
			require.Contains(t, out.String(), w, args)
		}
	}
}

func TestReportsWhyItCannotEnrollAClusterExtension(t *testing.T) {
	s := newExtensionSite(t)
	for want, args := range map[string][]string{
		`"system:masters" is not a valid ClusterExtension name`: {"system:masters"},
		"NAME is missing":         {},
		`unexpected argument "b"`: {"a", "b"},
		`--impersonation=x: must be one of ["auto" "constrained" "legacy"]`: {"a", "--impersonation=x"},
		`--dry-run=x: must be one of ["none" "client"]`:                     {"a", "--dry-run=x"},
		"--author and --author-group: names must not be empty":              {"a", "--author="},
		"--grant cannot be used with --dry-run or --output":                 {"a", "--grant", "--dry-run=client"},
	} {
		_, err := s.run(NewCommand(), s.root, append([]string{"clusterextension"}, args...)...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
	}
	_, err := s.run(NewCommand(), eve, "clusterextension", s.extension)
	require.ErrorContains(t, err, `User "eve" cannot get resource "clusterroles"`)
	require.ErrorContains(t, err, "To enroll ClusterExtension "+s.extension+", you need these permissions")
	_, err = s.run(NewCommand(), eve, "installer", "--for=x")
	require.ErrorContains(t, err, `--for=x: must be one of ["operatorgroups" "clusterextensions"]`)
}

func TestEnrollsAnAccountForClusterExtensions(t *testing.T) {
	s := newSite(t)
	const name = "remit-extension-enrollment-installer"
	require.Equal(t, "role.rbac.authorization.k8s.io/"+name+" created\nrolebinding.rbac.authorization.k8s.io/"+name+" created\n"+
		"role.rbac.authorization.k8s.io/remit-author-installer:"+alice+" created\nrolebinding.rbac.authorization.k8s.io/remit-author-installer:"+alice+" created\n",
		s.enroll(eve, "installer", "--for=clusterextensions", "--author", alice))
	s.may(remitExtension, "create", "serviceaccounts/token", "installer")
	require.False(t, s.allowed(remitExtension, "create", "serviceaccounts/token", "default"))
	require.False(t, s.allowed(olm, "create", "serviceaccounts/token", "installer"))
	s.may(alice, "impersonate", "serviceaccounts", "installer")
	require.Contains(t, s.unenroll(eve, "installer", "--for=clusterextensions", "--author", alice), "role.rbac.authorization.k8s.io/"+name+" deleted\n")
	s.mayNot(remitExtension, "create", "serviceaccounts/token", "installer")
}
