package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
)

// site is a control plane with the CustomResourceDefinitions of OLM.
type site struct {
	*testing.T
	client.Client
	cluster *controlplane.Instance
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cluster: controlplane.Start(t)}
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	s.Client, err = client.New(s.cluster.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	objs, err := manifests.Render("bounded")
	require.NoError(t, err)
	objs = slices.DeleteFunc(objs, func(obj *unstructured.Unstructured) bool { return obj.GetKind() != "CustomResourceDefinition" })
	require.NoError(t, manifests.Apply(t.Context(), s.Client, objs))
	return s
}

func (s *site) create(objs ...client.Object) {
	s.Helper()
	for _, obj := range objs {
		require.NoError(s, s.Create(s.Context(), obj))
	}
}

// status runs the command as a user; "" means the administrator.
func (s *site) status(as string, args ...string) (out, notes string, err error) {
	s.Helper()
	cmd := NewCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--kubeconfig="+s.cluster.Kubeconfig, "--as="+as))
	err = cmd.ExecuteContext(s.Context())
	return stdout.String(), stderr.String(), err
}

// report runs the command as a user, and decodes its JSON output.
func (s *site) report(as string, args ...string) Report {
	s.Helper()
	out, notes, _ := s.status(as, append(args, "-o", "json")...)
	var r Report
	require.NoError(s, json.Unmarshal([]byte(out), &r), notes)
	return r
}

func clusterExtension(name, namespace string) *olmv1.ClusterExtension {
	return &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: olmv1.ClusterExtensionSpec{
		Namespace: namespace, Source: olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "sample"}},
	}}
}

func bindingTo(name, clusterRole string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}}
}

func TestShowsClusterExtensionsOfACluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(bindingTo("demo-admin", "cluster-admin", userOf("demo")))
	_, notes, err := s.status("", "-A")
	require.NoError(t, err)
	require.Equal(t, "No OperatorGroups, Subscriptions or ClusterExtensions found in any namespace.\n", notes, "the cluster does not serve ClusterExtensions")

	crds.Install(t, s.cluster.Config())
	for _, name := range []string{"demo-system", "other"} {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	out, _, err := s.status("", "-A")
	require.NoError(t, err)
	require.Equal(t, "Permissions that no ClusterExtension uses. A new ClusterExtension with the same identity gets them:\n  cluster-wide\n"+
		"    ClusterRoleBinding demo-admin (ClusterRole cluster-admin): User olm:clusterextension:demo\n"+
		"  To remove enrollments, run kubectl remit unenroll; delete the other objects with kubectl delete\n", out)

	demo := clusterExtension("demo", "demo-system")
	s.create(demo, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "left"}, Subjects: []rbacv1.Subject{userOf("gone")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}})
	s.create(scoped.ExtensionEnrollment(scoped.Identity{Extension: "demo"}, names.DefaultNamespace, scoped.ImpersonationConstrained)...)
	demo.Status.Conditions = []metav1.Condition{
		{Type: olmv1.TypeAuthorized, Status: "False", Reason: olmv1.ReasonMissingPermissions, Message: "it is missing 1 permission", ObservedGeneration: demo.Generation, LastTransitionTime: metav1.Now()},
	}
	require.NoError(t, s.Status().Update(t.Context(), demo))
	for namespace, want := range map[string][]string{"demo-system": {"demo"}, "other": nil} {
		var got []string
		r := s.report("", "-n", namespace)
		for _, e := range r.ClusterExtensions {
			got = append(got, e.Name)
		}
		require.Equal(t, want, got)
		require.Len(t, r.Dangling, map[string]int{"other": 1}[namespace])
	}
	out, _, err = s.status("", "-A")
	require.Equal(t, cli.CodeMissing, cli.ExitCode(err))
	require.Contains(t, out, "ClusterExtension demo (namespace demo-system)\n  Identity: User olm:clusterextension:demo (enrolled: yes, authorized: no)\n"+
		"  Installed: nothing (package sample)\n")
	require.Contains(t, out, "  in namespace other\n    RoleBinding left (ClusterRole view): User olm:clusterextension:gone\n")
	require.NotContains(t, out, "demo-admin")

	require.NoError(t, s.Delete(t.Context(), demo))
	require.Len(t, s.report("", "-A").Dangling, 3, "the grant and the enrollment of the deleted extension remain")
}

func TestNotesWhatTheUserMayNotReadOfClusterExtensions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	crds.Install(t, s.cluster.Config())
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, clusterExtension("demo", "team"))
	groups := []string{"operators.coreos.com"}
	s.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "olm"}, Rules: []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"list"}}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "extensions"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{olmv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"list"}}}},
		bindingTo("olm", "olm", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}),
		bindingTo("extensions", "extensions", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "bob"}))
	(&env.Tenant{T: t}).Eventually(func(c *assert.CollectT) {
		_, notes, err := s.status("alice", "-n", "team")
		assert.NoError(c, err)
		assert.Contains(c, notes, `note: ClusterExtensions and unused permissions of ClusterExtensions are unknown: clusterextensions.olm.operatorframework.io is forbidden: User "alice" cannot list`)
		r := s.report("bob", "-n", "team")
		if assert.Len(c, r.ClusterExtensions, 1) {
			assert.Equal(c, Unknown, r.ClusterExtensions[0].Enrolled)
		}
		assert.Empty(c, r.Dangling)
	})
}
