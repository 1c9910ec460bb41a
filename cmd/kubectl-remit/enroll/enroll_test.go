package enroll

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// site is a namespace with the ServiceAccount "installer" and the administrator "eve".
type site struct {
	*testing.T
	client.Client
	cluster   *controlplane.Instance
	namespace string
}

const (
	eve   = "eve"
	alice = "alice@example.com"
	// The users that Remit's programs run as.
	catalog    = "system:serviceaccount:remit:" + names.ServiceAccountCatalog
	olm        = "system:serviceaccount:remit:" + names.ServiceAccountOLM
	enrollment = "remit-enrollment-installer"
)

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cluster: controlplane.Shared(t)}
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	s.Client, err = client.New(s.cluster.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "enroll-"}}
	s.create(ns)
	s.namespace = ns.Name
	s.create(&corev1.ServiceAccount{ObjectMeta: s.meta("installer")})
	s.create(&rbacv1.RoleBinding{ObjectMeta: s.meta("admin"), Subjects: []rbacv1.Subject{user(eve)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}})
	// Wait for the permissions, because a new cluster aggregates the ClusterRole admin gradually.
	s.may(eve, "create", "roles", "")
	s.may(eve, "get", "serviceaccounts", "installer")
	return s
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *site) create(obj client.Object) {
	s.Helper()
	require.NoError(s, s.Create(s.Context(), obj))
}

func (s *site) get(name string, obj client.Object) error {
	return s.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, obj)
}

// may waits until the API server's authorizer allows the request.
func (s *site) may(user, verb, resource, name string) {
	s.Helper()
	(&env.Tenant{T: s.T}).Eventually(func(c *assert.CollectT) { assert.True(c, s.allowed(user, verb, resource, name)) })
}

func (s *site) mayNot(user, verb, resource, name string) {
	s.Helper()
	(&env.Tenant{T: s.T}).Eventually(func(c *assert.CollectT) { assert.False(c, s.allowed(user, verb, resource, name)) })
}

func (s *site) allowed(user, verb, resource, name string) bool {
	resource, subresource, _ := strings.Cut(resource, "/")
	group := ""
	if resource == "roles" {
		group = rbacv1.GroupName
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: s.namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
		}}}
	return s.Create(s.Context(), review) == nil && review.Status.Allowed
}

// run executes one of the commands as a user.
func (s *site) run(cmd *cobra.Command, as string, args ...string) (out string, err error) {
	s.Helper()
	var buffer bytes.Buffer
	cmd.SetOut(&buffer)
	cmd.SetErr(&buffer)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig="+s.cluster.Kubeconfig, "--namespace="+s.namespace, "--as="+as))
	err = cmd.ExecuteContext(s.Context())
	return buffer.String(), err
}

func (s *site) enroll(as string, args ...string) string {
	s.Helper()
	out, err := s.run(NewCommand(), as, args...)
	require.NoError(s, err)
	return out
}

func (s *site) unenroll(as string, args ...string) string {
	s.Helper()
	out, err := s.run(NewUnenrollCommand(), as, args...)
	require.NoError(s, err)
	return out
}

func TestAnAdministratorOfTheNamespaceEnrolls(t *testing.T) {
	s := newSite(t)
	created := "role.rbac.authorization.k8s.io/" + enrollment + " created\nrolebinding.rbac.authorization.k8s.io/" + enrollment + " created\n"
	require.Equal(t, created, s.enroll(eve, "installer"))
	for _, program := range []string{catalog, olm} {
		s.may(program, "create", "serviceaccounts/token", "installer")
		require.False(t, s.allowed(program, "create", "serviceaccounts/token", "default"))
		require.False(t, s.allowed(program, "impersonate", "serviceaccounts", "installer"))
	}
	require.Equal(t, strings.ReplaceAll(created, "created", "unchanged"), s.enroll(eve, "installer"), "again")

	deleted := "rolebinding.rbac.authorization.k8s.io/" + enrollment + " deleted\nrole.rbac.authorization.k8s.io/" + enrollment + " deleted\n"
	require.Equal(t, deleted, s.unenroll(eve, "installer"))
	s.mayNot(olm, "create", "serviceaccounts/token", "installer")
	require.Equal(t, strings.ReplaceAll(deleted, "deleted", "not found"), s.unenroll(eve, "installer"), "again")
}

func TestLetsAuthorsImpersonateTheAccount(t *testing.T) {
	s := newSite(t)
	out := s.enroll(eve, "installer", "--author", alice, "--author", "o/dd", "--author-group", "team")
	for _, name := range []string{enrollment, "remit-author-installer:" + alice, "remit-author-installer:o~1dd", "remit-author-installer:group:team"} {
		require.Contains(t, out, "role.rbac.authorization.k8s.io/"+name+" created\nrolebinding.rbac.authorization.k8s.io/"+name+" created\n")
	}
	for _, author := range []string{alice, "o/dd"} {
		s.may(author, "impersonate", "serviceaccounts", "installer")
		require.False(t, s.allowed(author, "impersonate", "serviceaccounts", "default"))
	}
	binding := &rbacv1.RoleBinding{}
	require.NoError(t, s.get("remit-author-installer:group:team", binding))
	require.Equal(t, []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "team"}}, binding.Subjects)

	require.Contains(t, s.enroll(eve, "installer", "--author", "o-dd", "--author", "group:team"), "remit-author-installer:user:group:team created", "the bindings of different users have different names")
	require.Contains(t, s.unenroll(eve, "installer", "--author", alice), "deleted")
	s.mayNot(alice, "impersonate", "serviceaccounts", "installer")
	s.may("o/dd", "impersonate", "serviceaccounts", "installer")
}

func TestCompletesAPartialEnrollment(t *testing.T) {
	s := newSite(t)
	s.enroll(eve, "installer")
	binding := &rbacv1.RoleBinding{}
	require.NoError(t, s.get(enrollment, binding))
	binding.Subjects = binding.Subjects[:1]
	binding.Labels = map[string]string{"theirs": "kept"}
	require.NoError(t, s.Update(t.Context(), binding))

	require.Contains(t, s.enroll(eve, "installer"), "rolebinding.rbac.authorization.k8s.io/"+enrollment+" configured")
	require.NoError(t, s.get(enrollment, binding))
	require.Len(t, binding.Subjects, 2)
	require.Contains(t, binding.Labels, "theirs")
}

// Regression test: the output did not contain the Role that was created before the binding was refused.
func TestPrintsWhatWasDoneBeforeAFailure(t *testing.T) {
	s := newSite(t)
	const bob = "bob"
	s.create(&rbacv1.Role{ObjectMeta: s.meta("half"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get", "create", "delete", "escalate"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}},
	}})
	s.create(&rbacv1.RoleBinding{ObjectMeta: s.meta("half"), Subjects: []rbacv1.Subject{user(bob)}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "half"}})
	s.may(bob, "create", "roles", "")
	out, err := s.run(NewCommand(), bob, s.namespace+"/installer")
	require.Contains(t, out, enrollment+" created\n")
	require.ErrorContains(t, err, "Done before: role.rbac.authorization.k8s.io/"+enrollment+" created. Not tried: ")
	require.Equal(t, cli.CodeError, cli.ExitCode(err))
	require.NoError(t, s.get(enrollment, &rbacv1.Role{}))
}

func TestDoesNotChangeObjectsOfOthers(t *testing.T) {
	s := newSite(t)
	objs := scoped.Enrollment(client.ObjectKey{Namespace: s.namespace, Name: "installer"}, names.DefaultNamespace)
	role, binding := objs[0].(*rbacv1.Role), objs[1].(*rbacv1.RoleBinding)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	binding.Subjects = append(binding.Subjects, user("mallory"))
	s.create(role)
	s.create(binding)

	for _, cmd := range []*cobra.Command{NewCommand(), NewUnenrollCommand()} {
		_, err := s.run(cmd, eve, "installer", "--author", alice)
		require.ErrorContains(t, err, "Role "+s.namespace+"/"+enrollment+` already exists and was not created by enroll: it grants {apiGroups: [""], resources: ["secrets"], verbs: ["get"]}`)
		require.ErrorContains(t, err, "RoleBinding "+s.namespace+"/"+enrollment+` already exists and was not created by enroll: it names User "mallory"`)
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
		live := &rbacv1.RoleBinding{}
		require.NoError(t, s.get(enrollment, live))
		require.Equal(t, binding.ResourceVersion, live.ResourceVersion)
		require.Error(t, s.get("remit-author-installer:"+alice, live), "nothing was written")
	}

	binding.Subjects = binding.Subjects[:2]
	role.Rules[0].ResourceNames = []string{"other"}
	role.Rules = role.Rules[:1]
	require.NoError(t, s.Update(t.Context(), binding))
	require.NoError(t, s.Update(t.Context(), role))
	_, err := s.run(NewCommand(), eve, "installer")
	require.ErrorContains(t, err, `it grants {apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["other"], verbs: ["create"]}`)
}

func TestDoesNotChangeABindingToAnotherRole(t *testing.T) {
	s := newSite(t)
	s.create(&rbacv1.RoleBinding{ObjectMeta: s.meta(enrollment), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}})
	_, err := s.run(NewCommand(), eve, "installer")
	require.ErrorContains(t, err, `it binds ClusterRole "view"`)
}

func TestADryRunSendsNoRequests(t *testing.T) {
	var out bytes.Buffer
	for args, want := range map[string][]string{
		"installer -n t --dry-run=client":                                 {"role.rbac.authorization.k8s.io/" + enrollment + " created (dry run)\n"},
		"installer -n t --dry-run=client -o json":                         {`"kind": "List"`, `"remit-olm"`},
		"installer -n t --dry-run=client -o yaml":                         {"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: " + enrollment + "\n  namespace: t\nrules:\n"},
		"x -n t --dry-run=client --author=a -o yaml":                      {"remit-author-x:a", "- impersonate\n"},
		"installer -n t --dry-run=client -o yaml --remit-namespace=other": {"  namespace: other\n"},
	} {
		out.Reset()
		cmd := NewCommand()
		cmd.SetOut(&out)
		cmd.SetArgs(append(strings.Fields(args), "--server=https://127.0.0.1:1"))
		require.NoError(t, cmd.ExecuteContext(t.Context()), args)
		for _, w := range want {
			require.Contains(t, out.String(), w, args)
		}
		require.NotContains(t, out.String(), "creationTimestamp")
	}
}

func TestReportsWhyItCannotEnroll(t *testing.T) {
	s := newSite(t)
	for want, args := range map[string][]string{
		`serviceaccounts "missing" not found`:                  {"missing"},
		`"A b" is not a valid ServiceAccount name`:             {"A b"},
		"SERVICEACCOUNT is missing":                            {},
		"is not in namespace":                                  {"other/installer"},
		`"a/b/c" is not of the form <namespace>/<name>`:        {"a/b/c"},
		`--dry-run=server: must be one of ["none" "client"]`:   {"installer", "--dry-run=server"},
		"--author and --author-group: names must not be empty": {"installer", "--author="},
		"--remit-namespace":                                    {"installer", "--remit-namespace=A"},
	} {
		_, err := s.run(NewCommand(), eve, args...)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
	}

	out, err := s.run(NewCommand(), "mallory", "installer")
	require.ErrorContains(t, err, `User "mallory" cannot get resource "roles"`)
	require.ErrorContains(t, err, "To enroll ServiceAccount "+s.namespace+"/installer, you need")
	require.Contains(t, out, "warning: cannot verify that ServiceAccount")

	// Permissions on roles are not enough: the API server requires users to have the permissions that they grant.
	s.create(&rbacv1.Role{ObjectMeta: s.meta("roles"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "create", "update", "delete"}},
	}})
	s.create(&rbacv1.RoleBinding{ObjectMeta: s.meta("roles"), Subjects: []rbacv1.Subject{user("trudy")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "roles"}})
	s.may("trudy", "create", "roles", "")
	_, err = s.run(NewCommand(), "trudy", "installer")
	require.ErrorContains(t, err, "is attempting to grant RBAC permissions not currently held")
	require.ErrorContains(t, err, "To enroll ServiceAccount")
}

func TestTheArgumentCanNameTheNamespace(t *testing.T) {
	for args, want := range map[string]string{
		"team-a/installer":             "  namespace: team-a\n",
		"team-a/installer -n team-a":   "  namespace: team-a\n",
		"installer --namespace=team-b": "  namespace: team-b\n",
	} {
		cmd := NewCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs(append(strings.Fields(args), "--dry-run=client", "-o", "yaml", "--server=https://127.0.0.1:1"))
		require.NoError(t, cmd.ExecuteContext(t.Context()), args)
		require.Contains(t, out.String(), want, args)
	}
}

func TestCompletesNames(t *testing.T) {
	s := newSite(t)
	cmd := NewCommand()
	require.NoError(t, cmd.ParseFlags([]string{"--kubeconfig=" + s.cluster.Kubeconfig, "--namespace=" + s.namespace}))
	found, directive := cmd.ValidArgsFunction(cmd, nil, "ins")
	require.Equal(t, []string{"installer"}, found)
	require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
	found, _ = cmd.ValidArgsFunction(cmd, []string{"installer"}, "")
	require.Empty(t, found)
}
