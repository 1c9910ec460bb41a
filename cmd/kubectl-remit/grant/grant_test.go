package grant

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/preflight"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	engine "github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// site is a namespace on a real API server, and the options of a command run by its administrator.
type site struct {
	*testing.T
	client.Client
	*Options
	namespace  string
	out, notes bytes.Buffer
}

func newSite(t *testing.T, answer string) *site {
	t.Helper()
	plane := controlplane.Shared(t)
	s := &site{T: t, Options: &Options{Cluster: cli.NewCluster(), Format: cli.Text, In: strings.NewReader(answer)}}
	s.Out, s.ErrOut = &s.out, &s.notes
	cmd := &cobra.Command{}
	s.Cluster.AddFlags(cmd)
	require.NoError(t, cmd.ParseFlags([]string{"--kubeconfig=" + plane.Kubeconfig}))
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	s.Client, err = client.New(plane.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "grant-"}}
	require.NoError(t, s.Create(t.Context(), ns))
	s.namespace = ns.Name
	return s
}

// missing returns the result of a check: the account is missing a permission in the namespace and, with clusterWide, another one in
// the whole cluster.
func (s *site) missing(verb string, clusterWide ...string) *preflight.Missing {
	report := engine.Report{Identity: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: s.namespace, Name: "installer"})}
	add := func(namespace, verb string) {
		report.Findings = append(report.Findings, engine.Finding{Namespace: namespace,
			Missing: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{verb}}}})
	}
	add(s.namespace, verb)
	for _, verb := range clusterWide {
		add(rbac.ClusterScope, verb)
	}
	return &preflight.Missing{
		Objects: report.Objects(), Basis: "plan 1", Err: cli.Missing(),
		Describe: func(out io.Writer) error { _, err := io.WriteString(out, string(report.Refusals())+"\n"); return err },
	}
}

// grant runs the command. The first check returns the first result, and so on; the last one is repeated.
func (s *site) grant(results ...*preflight.Missing) error {
	s.Helper()
	return s.run(s.Context(), func(context.Context) (*preflight.Missing, error) {
		now := results[0]
		if len(results) > 1 {
			results = results[1:]
		}
		return now, nil
	})
}

// count returns the number of the objects that exist.
func (s *site) count(objs []client.Object) (n int) {
	s.Helper()
	for _, obj := range objs {
		live, _ := obj.DeepCopyObject().(client.Object)
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			require.True(s, apierrors.IsNotFound(err), err)
			continue
		}
		n++
	}
	return n
}

func TestGrantsWhatIsMissingAfterAConfirmation(t *testing.T) {
	for answer, granted := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yes please\n": false} {
		t.Run(answer, func(t *testing.T) {
			s := newSite(t, answer)
			m := s.missing("get", "list")
			err := s.grant(m)
			var yaml bytes.Buffer
			require.NoError(t, cli.YAML.EncodeObjects(&yaml, m.Objects))
			require.True(t, strings.HasPrefix(s.out.String(), yaml.String()), s.out.String())
			require.Contains(t, s.notes.String(), "is missing 2 permissions; nothing was written.\n")
			require.Contains(t, s.notes.String(), "Create these 4 objects? [y/N] ")
			if !granted {
				require.ErrorContains(t, err, "not confirmed; nothing was written")
				require.Equal(t, cli.CodeMissing, cli.ExitCode(err))
				require.Zero(t, s.count(m.Objects))
				return
			}
			require.NoError(t, err)
			require.Equal(t, 4, s.count(m.Objects))
			require.Equal(t, 4, strings.Count(s.out.String(), " created\n"), s.out.String())

			s.Yes = true
			s.out.Reset()
			require.NoError(t, s.grant(m))
			require.Equal(t, 4, strings.Count(s.out.String(), " unchanged\n"), s.out.String())
		})
	}
}

func TestOnlyPrintsObjectsWithAnOutputFormat(t *testing.T) {
	s := newSite(t, "y\n")
	s.Format, s.Yes = cli.YAML, true
	m := s.missing("get")
	require.NoError(t, s.grant(m))
	var yaml bytes.Buffer
	require.NoError(t, cli.YAML.EncodeObjects(&yaml, m.Objects))
	require.Equal(t, yaml.String(), s.out.String())
	require.Zero(t, s.count(m.Objects))
}

func TestGrantsNothingIfWhatIsMissingHasChanged(t *testing.T) {
	s := newSite(t, "")
	s.Yes = true
	printed := s.missing("get")
	other := s.missing("get")
	other.Basis = "plan 2"
	for name, now := range map[string]*preflight.Missing{"another rule": s.missing("delete"), "another scope": s.missing("get", "get"), "another plan": other} {
		err := s.grant(printed, now)
		require.ErrorContains(t, err, "what is missing has changed since it was printed; nothing was written", name)
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
		require.Zero(t, s.count(append(printed.Objects, now.Objects...)), name)
	}
	failed := errors.New("cannot read")
	first := true
	err := s.run(t.Context(), func(context.Context) (*preflight.Missing, error) {
		if first {
			first = false
			return printed, nil
		}
		return nil, failed
	})
	require.ErrorIs(t, err, failed)
	require.Zero(t, s.count(printed.Objects))
}

func TestGrantsNothingWithoutMissingPermissions(t *testing.T) {
	s := newSite(t, "y\n")
	m := &preflight.Missing{Describe: func(io.Writer) error { return nil }}
	require.NoError(t, s.grant(m))
	m.Err = cli.Missing()
	require.Equal(t, cli.CodeMissing, cli.ExitCode(s.grant(m)), "an object is refused")
	require.Empty(t, s.out.String())
	require.NotContains(t, s.notes.String(), "Create")
}

// Regression test: the exit status was 0 although the install was still refused.
func TestObjectsThatAreStillRefusedAreAnError(t *testing.T) {
	s := newSite(t, "")
	s.Yes = true
	m := s.missing("get")
	m.Refused = &cli.ExitError{Code: cli.CodeMissing, Err: errors.New("Deployment is refused")}
	err := s.grant(m)
	require.ErrorIs(t, err, m.Refused)
	require.Equal(t, cli.CodeMissing, cli.ExitCode(err))
	require.Equal(t, 2, s.count(m.Objects), "what is missing is granted")
	s.Format = cli.YAML
	require.ErrorIs(t, s.grant(m), m.Refused)
}

func mallory() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}}
}

// Objects of others, which would give the permissions to other subjects or change later, are neither used nor changed.
func TestRefusesObjectsOfOthers(t *testing.T) {
	for name, row := range map[string]struct {
		// existing returns the object that exists, derived from those of the grant: Role, RoleBinding, ClusterRole and ClusterRoleBinding
		// are in the order of the slice.
		existing func(namespace string, objs []client.Object) client.Object
		want     string
	}{
		"a Role with other rules": {func(_ string, objs []client.Object) client.Object {
			role := objs[2].DeepCopyObject().(*rbacv1.Role)
			role.Rules[0].Verbs = []string{"watch"}
			return role
		}, `already exists and was not created by grant: it grants {apiGroups: [""], resources: ["configmaps"], verbs: ["watch"]}; nothing was changed`},
		"a binding of another subject": {func(_ string, objs []client.Object) client.Object {
			binding := objs[3].DeepCopyObject().(*rbacv1.RoleBinding)
			binding.Subjects = append(binding.Subjects, mallory()...)
			return binding
		}, `was not created by grant: it names User "mallory"`},
		"a binding to another role": {func(_ string, objs []client.Object) client.Object {
			binding := objs[3].DeepCopyObject().(*rbacv1.RoleBinding)
			binding.RoleRef.Name = "other"
			return binding
		}, `was not created by grant: it binds Role "other"`},
		"a binding without subjects": {func(_ string, objs []client.Object) client.Object {
			binding := objs[1].DeepCopyObject().(*rbacv1.ClusterRoleBinding)
			binding.Subjects = nil
			return binding
		}, "already exists without subjects and was not created by grant; nothing was written"},
		"a binding with another name to a Role that does not exist yet": {func(namespace string, objs []client.Object) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "early\n---"}, Subjects: mallory(), RoleRef: rbac.RoleRefOf(objs[3])}
		}, `RoleBinding "early\n---" in namespace`},
		"a binding in a namespace to a ClusterRole that does not exist yet": {func(namespace string, objs []client.Object) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "early"}, Subjects: mallory(), RoleRef: rbac.RoleRefOf(objs[1])}
		}, `to User "mallory", who would receive these permissions; nothing was written`},
		"a cluster-wide binding to a ClusterRole that does not exist yet": {func(namespace string, objs []client.Object) client.Object {
			return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: mallory(), RoleRef: rbac.RoleRefOf(objs[1])}
		}, `to User "mallory", who would receive these permissions; nothing was written`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "")
			s.Yes = true
			m := s.missing("get", "list")
			require.IsType(t, &rbacv1.ClusterRole{}, m.Objects[0])
			require.IsType(t, &rbacv1.Role{}, m.Objects[2])
			existing := row.existing(s.namespace, m.Objects)
			require.NoError(t, s.Create(t.Context(), existing))
			before := s.count(m.Objects)
			err := s.grant(m)
			require.ErrorContains(t, err, row.want)
			require.Equal(t, cli.CodeError, cli.ExitCode(err))
			require.Equal(t, before, s.count(m.Objects))
			after, _ := existing.DeepCopyObject().(client.Object)
			require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(existing), after))
			require.Equal(t, existing.GetResourceVersion(), after.GetResourceVersion(), "it was not changed")

			require.NoError(t, s.Delete(t.Context(), existing))
			require.NoError(t, s.grant(m), "after the object was deleted")
		})
	}
}

func TestReportsWhyAGrantWasForbidden(t *testing.T) {
	s := newSite(t, "")
	s.Yes = true
	cmd := &cobra.Command{}
	s.Cluster = cli.NewCluster()
	s.Cluster.AddFlags(cmd)
	require.NoError(t, cmd.ParseFlags([]string{"--kubeconfig=" + controlplane.Shared(t).Kubeconfig, "--as=nobody"}))
	err := s.grant(s.missing("get"))
	require.ErrorContains(t, err, `User "nobody" cannot get resource "roles"`)
	require.Zero(t, s.count(s.missing("get").Objects))
}

func TestUnderstandsItsArgument(t *testing.T) {
	for arg, want := range map[string]string{
		"plan":          `"plan": must be NAMESPACE/INSTALLPLAN | subscription/NAME`,
		"team-a/":       "must be NAMESPACE/INSTALLPLAN",
		"team-a/A/b":    "A/b",
		"sub/x":         "",
		"installplan/x": "", "clusterextension/x": "", "team-a/x": "",
	} {
		_, err := (&Options{}).target(arg, false)
		if want == "" {
			require.NoError(t, err, arg)
			continue
		}
		require.ErrorContains(t, err, want, arg)
	}
	_, err := (&Options{}).target("team-a/x", true)
	require.ErrorContains(t, err, "--namespace cannot be used with NAMESPACE/INSTALLPLAN")
}

func TestDoesNotOmitTheQuestionForUnconfirmedContent(t *testing.T) {
	s := newSite(t, "y\n")
	s.Yes = true
	m, open := s.missing("get"), s.missing("get")
	open.Unconfirmed = errors.New("nothing confirms the content")
	for _, results := range [][]*preflight.Missing{{open}, {m, open}} {
		err := s.grant(results...)
		require.ErrorContains(t, err, "nothing confirms the content; nothing was written")
		require.Equal(t, cli.CodeError, cli.ExitCode(err))
		require.Zero(t, s.count(m.Objects))
	}
	s.Yes = false
	require.NoError(t, s.grant(open))
	require.Equal(t, 2, s.count(m.Objects))
}

// A confirmed bundle does not confirm the target namespaces, which whoever may write the OperatorGroup determines.
func TestDoesNotOmitTheQuestionForTargetsThatAreNotNamed(t *testing.T) {
	s := newSite(t, "y\n")
	s.Yes = true
	m, open := s.missing("get"), s.missing("get")
	open.Elsewhere = []string{"victim", rbac.ClusterScope}
	for _, targets := range [][]string{nil, {"other"}, {"victim"}, {s.namespace}} {
		s.Targets = targets
		for _, results := range [][]*preflight.Missing{{open}, {m, open}} {
			err := s.grant(results...)
			require.ErrorContains(t, err, "other namespaces in which permissions would be granted")
			require.ErrorContains(t, err, "add ")
			require.ErrorContains(t, err, "--target '*'")
			require.Equal(t, !slices.Contains(targets, "victim"), strings.Contains(err.Error(), "--target victim"))
			require.Equal(t, cli.CodeError, cli.ExitCode(err))
			require.Zero(t, s.count(m.Objects))
		}
	}
	s.Targets = []string{"*"}
	require.NoError(t, s.grant(open))
	require.Equal(t, 2, s.count(m.Objects))

	asked := newSite(t, "y\n")
	open = asked.missing("get")
	open.Elsewhere = []string{"victim"}
	require.NoError(t, asked.grant(open), "the user sees the objects and answers")
}

func TestRejectsFlagsOfInstallPlansForAClusterExtension(t *testing.T) {
	for _, flag := range []string{"--target", "--bundle"} {
		cmd := NewCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs([]string{"clusterextension/x", flag, "y"})
		require.ErrorContains(t, cmd.ExecuteContext(t.Context()), flag+" cannot be used with a ClusterExtension")
	}
}
