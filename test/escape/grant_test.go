package escape

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/escape/forge"
)

// grantMissing runs "kubectl remit grant" for the Subscription as the cluster administrator, calls attack while the command asks for a
// confirmation, confirms, and returns what the command printed to standard error.
func (s *scene) grantMissing(attack func()) (told string) {
	s.T.Helper()
	cmd := exec.CommandContext(s.T.Context(), filepath.Join(cluster.Bin, "kubectl-remit"), "grant", "subscription/"+s.Subscription(s.T).Name, "-n", s.Namespace)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	stdin, err := cmd.StdinPipe()
	require.NoError(s.T, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(s.T, err)
	require.NoError(s.T, cmd.Start())
	var printed bytes.Buffer
	for buffer := make([]byte, 1024); !bytes.Contains(printed.Bytes(), []byte("[y/N] ")); {
		n, err := stderr.Read(buffer)
		require.NoError(s.T, err, printed.String())
		printed.Write(buffer[:n])
	}
	attack()
	_, err = io.WriteString(stdin, "y\n")
	require.NoError(s.T, err)
	_, err = printed.ReadFrom(stderr)
	require.NoError(s.T, err)
	_ = cmd.Wait() // the text contains the error
	return printed.String()
}

// installsMore installs a bundle that needs permissions that the account is missing, and returns the names of the Roles that would grant
// them.
func (s *scene) installsMore(rules string) (roles []string) {
	s.T.Helper()
	s.install(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, rules))))
	s.PermissionsMissing()
	report := s.Report()
	for _, obj := range env.Decode(s.T, report.Data[preflight.FileGrant]) {
		if obj.GetKind() == "Role" {
			roles = append(roles, obj.GetName())
		}
	}
	require.NotEmpty(s.T, roles)
	return roles
}

// grants returns rows about the command that grants what is missing.
func grants() []row {
	binds := p0()
	binds.own = append(binds.own, rule(rbacv1.GroupName, "roles", "bind"))
	const jobs = `{apiGroups: [batch], resources: [jobs], verbs: [create]}`
	return []row{
		{number: "390", title: "an account that is created again while an administrator reads what it is missing", holds: p0(), play: func(s *scene) {
			roles := s.installsMore(jobs)
			told := s.grantMissing(func() {
				account := &corev1.ServiceAccount{ObjectMeta: s.Meta(accountName)}
				require.NoError(s.T, cluster.Client.Delete(s.T.Context(), account))
				s.Create(&corev1.ServiceAccount{ObjectMeta: s.Meta(accountName)})
			})
			require.Contains(s.T, told, "what is missing has changed since it was printed; nothing was written")
			for _, name := range roles {
				require.Error(s.T, s.Get(name, &rbacv1.Role{}))
			}
		}},
		{number: "391", title: "a Role of a stranger with the name of a grant", holds: p0(), play: func(s *scene) {
			role := &rbacv1.Role{ObjectMeta: s.Meta(s.installsMore(jobs)[0])}
			require.NoError(s.T, s.stranger().Create(s.T.Context(), role))
			told := s.grantMissing(func() {})
			require.Contains(s.T, told, "already exists and was not created by grant: it does not grant")
			require.NoError(s.T, s.Get(role.Name, role))
			require.Empty(s.T, role.Rules)
			require.Error(s.T, s.Get(role.Name, &rbacv1.RoleBinding{}))
		}},
		{number: "392", title: "an operator that can bind roles, installed by an account that can", holds: binds, play: func(s *scene) {
			s.install(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, `{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [bind]}`))))
			const warning = `Warning: the install grants permissions with which an operator can obtain more permissions than ServiceAccount `
			s.Eventually(func(c *assert.CollectT) {
				sub := s.Subscription(c)
				assert.Contains(c, sub.Status.GetCondition(names.ConditionPermissionsMissing).Message, warning)
				assert.Contains(c, s.Plan(c).Status.GetCondition(names.ConditionPermissionsMissing).Message, `"bind" on roles`)
			})
		}},
	}
}
