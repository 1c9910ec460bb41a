package escape

import (
	"fmt"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// hidden is a name that looks like a manifest to apply when a message quotes it. RBAC names cannot contain a slash, but
// YAML can express one as an escape sequence.
const hidden = `"probe\nTo grant the missing permissions, apply:\n---\n` +
	`{apiVersion: \"rbac.authorization.k8s.io\\x2fv1\", kind: ClusterRoleBinding, metadata: {name: escape-pasted},` +
	` roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},` +
	` subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: stranger}]}\n#"`

// called returns a Role with the given name and an invalid label. The API server refuses the label with a message that
// contains the name.
func called(name string) string {
	return `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: ` + name + `, labels: {a: "no value!"}},
 rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}`
}

// stranger returns a client for a user who may write Roles and RoleBindings but has no permissions to grant.
func (s *scene) stranger() client.Client {
	s.T.Helper()
	s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}, "stranger",
		profile{own: []rbacv1.PolicyRule{rule(rbacv1.GroupName, "roles rolebindings", "create", "update", "delete"), rule("", "pods", "list")}})
	return s.knownAs("stranger")
}

// cannotBindEarly asserts that the stranger cannot bind a Role to themselves before users create the Role as a report
// tells them to. Otherwise, the stranger would get the permissions of the Role.
func (s *scene) cannotBindEarly(stranger client.Client, role string) {
	s.T.Helper()
	made := &rbacv1.Role{ObjectMeta: s.Meta(role)}
	require.NoError(s.T, stranger.Create(s.T.Context(), made))
	binding := &rbacv1.RoleBinding{ObjectMeta: s.Meta(role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}}
	theirs := []rbacv1.Subject{
		{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}, {Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: "stranger"},
	}
	for _, subject := range theirs {
		binding.Subjects = []rbacv1.Subject{subject}
		require.ErrorContains(s.T, stranger.Create(s.T.Context(), binding), "may be bound to it")
	}
	binding.Subjects = nil
	require.NoError(s.T, stranger.Create(s.T.Context(), binding))
	for _, subject := range theirs {
		binding.Subjects = []rbacv1.Subject{subject}
		require.ErrorContains(s.T, stranger.Update(s.T.Context(), binding), "may be bound to it")
	}
	for _, obj := range []client.Object{binding, made} {
		require.NoError(s.T, stranger.Delete(s.T.Context(), obj))
	}
}

// pastes returns rows about text that users copy from messages.
func pastes() []row {
	return []row{
		broken("206", "a Role whose name is a manifest", called(hidden), "metadata.name", "must contain only letters"),
		broken("206a", "a Role whose name is a command", called(`"probe$(touch${IFS}escaped)"`), "metadata.name", "must contain only letters"),
		{number: "207", title: "bindings to Roles of an enrollment and of an author that do not exist yet", holds: p0(), play: func(s *scene) {
			stranger := s.stranger()
			for _, role := range []string{"remit-enrollment-later", "remit-author-acct:alice", "remit-author-acct:x:stranger", "remit-author-acct:group:stranger",
				"remit-author-acct:user:stranger", "remit-author-acct:strang~0er",
				fmt.Sprintf("remit-grant-%s:acct:aaaaaaaa", s.Namespace), "remit-grant-stranger", "remit-author-stranger"} {
				s.cannotBindEarly(stranger, role)
			}
			// An author may be bound only to the Role that enroll prints for that author, regardless of the author's name.
			for _, kind := range []string{rbacv1.UserKind, rbacv1.GroupKind} {
				account := client.ObjectKey{Namespace: s.Namespace, Name: accountName}
				objs := scoped.Authorship(account, rbacv1.Subject{Kind: kind, APIGroup: rbacv1.GroupName, Name: "group:a~/%"})
				s.Create(objs[0])
				binding, _ := objs[1].(*rbacv1.RoleBinding)
				for _, name := range []string{"group:a~-%", "group:a~1%", "a~/%"} {
					other := binding.DeepCopy()
					other.Subjects[0].Name = name
					require.ErrorContains(s.T, cluster.Client.Create(s.T.Context(), other), "may be bound to it")
				}
				s.Create(binding)
			}
		}},
	}
}
