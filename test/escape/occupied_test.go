package escape

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// occupations returns rows in which the administrator of one target prevents that the operator gets permissions there, before the
// install and before an upgrade.
func occupations() []row {
	return []row{
		{number: "306", title: "Roles with the names of the operator's Roles in one target", holds: p0(), play: func(s *scene) {
			s.occupied(func(admin client.Client, namespace, role string) client.Object {
				theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}}
				require.NoError(s.T, admin.Create(s.T.Context(), theirs))
				return theirs
			})
		}},
		{number: "306a", title: "bindings of the operator's Roles in one target", holds: p0(), play: func(s *scene) {
			s.occupied(func(admin client.Client, namespace, role string) client.Object {
				empty := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}}
				require.NoError(s.T, admin.Create(s.T.Context(), empty))
				theirs := s.strangersBinding(role)
				theirs.Namespace, theirs.Name = namespace, "theirs-"+role
				s.Eventually(func(c *assert.CollectT) { assert.NoError(c, admin.Create(s.T.Context(), theirs.DeepCopy())) })
				require.NoError(s.T, admin.Delete(s.T.Context(), empty))
				return theirs
			})
		}},
		{number: "399", title: "large Roles with the names of the operator's Roles in one target", holds: p0(), play: func(s *scene) {
			s.occupied(func(admin client.Client, namespace, role string) client.Object {
				theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}}
				require.NoError(s.T, admin.Create(s.T.Context(), theirs))
				theirs.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "theirs", Operation: metav1.ManagedFieldsOperationUpdate,
					APIVersion: rbacv1.SchemeGroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(manyFields())}}
				require.NoError(s.T, admin.Update(s.T.Context(), theirs))
				text, err := json.Marshal(theirs)
				require.NoError(s.T, err)
				require.Greater(s.T, len(text), 1_000_000)
				return theirs
			})
		}},
		{number: "395", title: "the administrator of one target binds the operator's Role in a loop while it is created", holds: p0(), play: func(s *scene) {
			s.raced()
		}},
	}
}

// manyFields returns managed fields of 1.3 MB, which are estimated to take more than 48 MiB when they are decoded.
func manyFields() string {
	var fields []string
	for i := range int64(110_000) {
		fields = append(fields, `"f:`+strconv.FormatInt(i, 36)+`":{}`)
	}
	return `{"f:metadata":{"f:labels":{` + strings.Join(fields, ",") + `}}}`
}

// occupied installs and upgrades an operator for three targets, one of which its administrator occupies.
func (s *scene) occupied(occupy func(admin client.Client, namespace, role string) client.Object) {
	s.T.Helper()
	t1, t2 := s.target("a"), s.target("b")
	targets := []string{s.Namespace, t1, t2}
	s.allow(func(c oracle.Change) bool {
		return slices.Contains([]string{t1, t2}, c.Namespace) || slices.Contains([]string{t1, t2}, c.Name)
	})
	admin := s.administrator(t1)
	second := forge.Of(probe, nextVersion().Set("2.0.0", "spec", "version"))
	second.Version, second.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
	theirs := []client.Object{occupy(admin, t1, s.operatorsRole(csv(), t1, targets)), occupy(admin, t1, s.operatorsRole(nextVersion(), t1, targets))}
	var versions []string
	for _, obj := range theirs {
		require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), obj))
		versions = append(versions, obj.GetResourceVersion())
	}
	note := "the operator gets no permissions in namespace " + t1
	s.group(targets...)
	s.publish(bundleOf(csv()))
	s.subscribe()
	require.Contains(s.T, s.Complete().Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Message, note)
	s.csvSays(succeeded, note)
	s.onlyOthers(t1, csv(), targets)

	s.republish(second)
	s.Eventually(func(c *assert.CollectT) {
		later := s.CSV(c, laterCSV)
		assert.Equal(c, succeeded, later.Status.Phase, later.Status.Message)
		assert.Contains(c, later.Status.Message, note)
	})
	s.onlyOthers(t1, nextVersion(), targets)
	for i, obj := range theirs {
		require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), obj))
		require.Equal(s.T, versions[i], obj.GetResourceVersion(), "the object of the other owner is not changed")
		require.NoError(s.T, admin.Delete(s.T.Context(), obj))
	}
	s.operatorReads(t1, true)
	s.Eventually(func(c *assert.CollectT) { assert.NotContains(c, s.CSV(c, laterCSV).Status.Message, note) })
	s.allow(nil)
	leave(s.T, t1)
	leave(s.T, t2)
}

// rounds is the number of times that raced lets Remit create the Role.
const rounds = 30

// raced installs an operator for two targets while the administrator of one of them creates, binds and deletes a Role with the name of the
// operator's Role, and lets Remit create it again each time. The binding must never grant what the operator's Role grants.
func (s *scene) raced() {
	s.T.Helper()
	target := s.target("a")
	targets := []string{s.Namespace, target}
	s.allow(func(c oracle.Change) bool { return c.Namespace == target || c.Name == target })
	admin, ask := s.administrator(target), preflight.Reviews(cluster.Client)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: target, Name: s.operatorsRole(csv(), target, targets)}}
	theirs := s.strangersBinding(role.Name)
	theirs.Namespace, theirs.Name = target, "theirs"
	theirs.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: target}}
	s.group(targets...)
	s.publish(bundleOf(csv()))
	s.subscribe()
	for created := 0; created < rounds; {
		live := &rbacv1.Role{}
		if err := admin.Get(s.T.Context(), client.ObjectKeyFromObject(role), live); err == nil {
			if len(live.Labels) > 0 {
				created++
			}
			_ = admin.Delete(s.T.Context(), live) // Remit creates it again
		}
		empty := role.DeepCopy()
		if admin.Create(s.T.Context(), empty) != nil {
			continue
		}
		bound := admin.Create(s.T.Context(), theirs.DeepCopy())
		_ = admin.Delete(s.T.Context(), empty)
		if bound != nil {
			continue
		}
		for range 5 { // Remit has time to create the Role
			allowed, err := ask(s.T.Context(), rbac.Subject{User: target}, target, rule("", "configmaps", "list"))
			require.NoError(s.T, err)
			require.False(s.T, allowed, "the administrator has the permissions of the operator")
		}
		require.NoError(s.T, admin.Delete(s.T.Context(), theirs.DeepCopy()))
		time.Sleep(time.Duration(created%5) * 10 * time.Millisecond)
	}
	s.Complete()
	s.operatorReads(target, true)
	s.csvSays(succeeded)
	s.allow(nil)
	leave(s.T, target)
}

// onlyOthers asserts that an operator has its Roles and permissions in all targets except one, where nothing is bound by Remit.
func (s *scene) onlyOthers(occupied string, c forge.CSV, targets []string) {
	s.T.Helper()
	for _, namespace := range targets {
		s.operatorReads(namespace, namespace != occupied)
		if namespace != occupied {
			role := client.ObjectKey{Namespace: namespace, Name: s.operatorsRole(c, namespace, targets)}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), role, &rbacv1.Role{}))
			continue
		}
		for _, list := range []client.ObjectList{&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
			require.NoError(s.T, cluster.Client.List(s.T.Context(), list, client.InNamespace(namespace), client.HasLabels{names.LabelPermissionsHash}))
			require.Equal(s.T, 0, meta.LenList(list), "%T", list)
		}
	}
}

// target creates another namespace in which the account has all permissions.
func (s *scene) target(suffix string) string {
	s.T.Helper()
	name := s.Namespace + "-" + suffix
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.Grant(name, everything())
	return name
}

// administrator returns a client for a user who may write Roles and RoleBindings in a namespace, but not grant what they contain.
func (s *scene) administrator(namespace string) client.Client {
	s.T.Helper()
	named := metav1.ObjectMeta{Namespace: namespace, Name: "admin"}
	s.Create(&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		rule(rbacv1.GroupName, "roles rolebindings", "get", "list", "create", "update", "patch", "delete"),
	}})
	s.Create(&rbacv1.RoleBinding{ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: namespace}}})
	c := cluster.As(s.T, namespace)
	s.Eventually(func(t *assert.CollectT) {
		assert.NoError(t, c.List(s.T.Context(), &rbacv1.RoleList{}, client.InNamespace(namespace)))
	})
	return c
}

// operatorsRole returns the name of the Role that an operator gets in a target, which everybody can predict.
func (s *scene) operatorsRole(c forge.CSV, namespace string, targets []string) string {
	s.T.Helper()
	typed := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(s.T, runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object, typed))
	objs, err := build.OperatorRBAC(typed, ownerutil.Owner{Lineage: s.lineage(), CSV: c.Name()}, targets)
	require.NoError(s.T, err)
	for _, obj := range objs {
		if obj.GetKind() == "Role" && obj.GetNamespace() == namespace {
			return obj.GetName()
		}
	}
	require.Fail(s.T, "the operator has no Role in "+namespace)
	return ""
}

// operatorReads waits until the operator may, or may not, read ConfigMaps in a namespace.
func (s *scene) operatorReads(namespace string, want bool) {
	s.T.Helper()
	ask := preflight.Reviews(cluster.Client)
	s.Eventually(func(c *assert.CollectT) {
		allowed, err := ask(s.T.Context(), rbac.ServiceAccount(s.Namespace, forge.ServiceAccount), namespace, rule("", "configmaps", "list"))
		assert.NoError(c, err)
		assert.Equal(c, want, allowed, namespace)
	})
}
