package status

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

func extension(name string, conditions ...metav1.Condition) olmv1.ClusterExtension {
	ext := olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	ext.Spec.Namespace = "ns"
	ext.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "sample"}
	ext.Status.Conditions = conditions
	return ext
}

// givenExtensions returns a world with ClusterExtensions and RBAC, without OperatorGroups.
func givenExtensions(t *testing.T, extensions []olmv1.ClusterExtension, objs ...client.Object) *world {
	t.Helper()
	w := givenWorld(t, func(w *world) { w.groups = nil })
	w.extensions, w.hasExtensions = extensions, true
	w.rbac = listers(t, objs...)
	var roles, bindings []any
	for _, obj := range objs {
		switch obj.(type) {
		case *rbacv1.ClusterRole:
			roles = append(roles, obj)
		case *rbacv1.ClusterRoleBinding:
			bindings = append(bindings, obj)
		}
	}
	w.rbac.ClusterRoles = rbacv1listers.NewClusterRoleLister(store(t, roles...))
	w.rbac.ClusterRoleBindings = rbacv1listers.NewClusterRoleBindingLister(store(t, bindings...))
	return w
}

func enrollmentOf(extension string) []client.Object {
	return scoped.ExtensionEnrollment(scoped.Identity{Extension: extension}, names.DefaultNamespace, scoped.ImpersonationConstrained)
}

var (
	authorized  = condition(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded, "has all permissions")
	progressing = condition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded, "Desired state reached")
	installed   = condition(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded, "Installed")
	available   = condition(olmv1.TypeAvailable, metav1.ConditionTrue, olmv1.ReasonAvailable, "")
)

func running(name string) olmv1.ClusterExtension {
	ext := extension(name, authorized, progressing, installed, available)
	ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "sample.v1", Version: "1.0.0"}}
	return ext
}

func TestReportsAClusterExtensionThatRuns(t *testing.T) {
	text, r := shown(t, givenExtensions(t, []olmv1.ClusterExtension{running("demo")}, enrollmentOf("demo")...))
	require.Equal(t, `ClusterExtension demo (namespace ns)
  Identity: User olm:clusterextension:demo (enrolled: yes, authorized: yes)
  Installed: sample.v1, version 1.0.0 (available: yes)
  Progressing: yes (Succeeded)
  Blocked: nothing
`, text)
	require.False(t, r.blocked())
	require.Empty(t, r.Dangling)
}

func TestReportsWhatBlocksAClusterExtension(t *testing.T) {
	const yaml = "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
	missing := condition(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonMissingPermissions,
		"User olm:clusterextension:demo is missing 2 permissions; nothing was written.\n- a\n- b\nTo grant the missing permissions, apply:"+yaml)
	retrying := func(message string) metav1.Condition {
		return condition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, message)
	}
	refused := condition(olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "CustomResourceDefinition x belongs to another")
	notEnrolled := condition(olmv1.TypeAuthorized, metav1.ConditionFalse, olmv1.ReasonNotEnrolled,
		"User olm:clusterextension:demo is not enrolled. To enroll it, run \"kubectl remit enroll clusterextension demo\" or apply:"+yaml+"is missing 3 permissions")
	const seeAll = "    To see everything that is missing and grant it: kubectl remit grant clusterextension/demo\n"
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		enrolled   bool
		want       string
	}{
		"permissions, once": {[]metav1.Condition{missing, retrying("error for resolved bundle \"a\" with version \"1\": pre-authorization failed: service account requires")}, true,
			"    Authorized: MissingPermissions\n      User olm:clusterextension:demo is missing 2 permissions; nothing was written.\n      - a\n      - b\n" + seeAll},
		"permissions, and something else": {[]metav1.Condition{missing, refused}, true,
			"    Authorized: MissingPermissions\n      User olm:clusterextension:demo is missing 2 permissions; nothing was written.\n      - a\n      - b\n" +
				"    Progressing: Blocked\n      CustomResourceDefinition x belongs to another\n" + seeAll},
		"permissions, and the catalog no longer exists": {[]metav1.Condition{missing, retrying("package \"a\" was not found")}, true,
			"    Authorized: MissingPermissions\n      User olm:clusterextension:demo is missing 2 permissions; nothing was written.\n      - a\n      - b\n" +
				"    Progressing: Retrying\n      package \"a\" was not found\n" + seeAll},
		"not enrolled": {[]metav1.Condition{notEnrolled, retrying(notEnrolled.Message)}, false,
			"    Authorized: NotEnrolled\n      User olm:clusterextension:demo is not enrolled. To enroll it, run \"kubectl remit enroll clusterextension demo\"\n" +
				"    To let Remit act as the identity: kubectl remit enroll clusterextension demo\n" + seeAll},
		"the configuration": {[]metav1.Condition{authorized, condition(olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonInvalidConfiguration, "spec.config.inline.x: no")}, true,
			"    Progressing: InvalidConfiguration\n      spec.config.inline.x: no\n"},
		"not available": {[]metav1.Condition{authorized, progressing, condition(olmv1.TypeAvailable, metav1.ConditionFalse, "ProbeFailure", "Deployment ns/d")}, true,
			"    Available: ProbeFailure\n      Deployment ns/d\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var objs []client.Object
			if c.enrolled {
				objs = enrollmentOf("demo")
			}
			text, r := shown(t, givenExtensions(t, []olmv1.ClusterExtension{extension("demo", c.conditions...)}, objs...))
			_, blocked, _ := strings.Cut(text, "  Blocked:\n")
			require.Equal(t, c.want, blocked)
			require.True(t, r.blocked())
		})
	}
}

func TestConditionsOfAnEarlierGenerationAreUnknown(t *testing.T) {
	ext := running("demo")
	ext.Generation = 2
	ext.Spec.ServiceAccount.Name = "acct"
	text, r := shown(t, givenExtensions(t, []olmv1.ClusterExtension{ext}))
	require.Contains(t, text, "Identity: ServiceAccount ns/acct (enrolled: no, authorized: unknown)\n")
	require.Contains(t, text, "  Progressing: unknown\n  Blocked: nothing\n    To let Remit act as the identity: kubectl remit enroll ns/acct --for=clusterextensions\n"+
		"  Note: Remit has not reconciled the ClusterExtension yet\n")
	require.False(t, r.blocked())
}

func TestAnInstallThatIsRollingOutIsNotDone(t *testing.T) {
	_, r := shown(t, givenExtensions(t, []olmv1.ClusterExtension{extension("demo", condition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut, "waiting"))}))
	require.True(t, r.blocked())
}

func TestEnrollmentIsUnknownWithoutRBAC(t *testing.T) {
	account := running("account")
	account.Spec.Namespace, account.Spec.ServiceAccount.Name = "elsewhere", "acct"
	w := givenExtensions(t, []olmv1.ClusterExtension{running("demo"), account}, enrollmentOf("demo")...)
	w.partial = true
	_, r := shown(t, w)
	require.Equal(t, []Answer{Unknown, Yes}, []Answer{r.ClusterExtensions[0].Enrolled, r.ClusterExtensions[1].Enrolled}, "the namespace was not read")
	w.rbac = nil
	_, r = shown(t, w)
	require.Equal(t, []Answer{Unknown, Unknown}, []Answer{r.ClusterExtensions[0].Enrolled, r.ClusterExtensions[1].Enrolled})
}

func TestReportsTheClusterExtensionsOfTheNamespace(t *testing.T) {
	other := running("other")
	other.Spec.Namespace = "b"
	w := givenExtensions(t, []olmv1.ClusterExtension{running("demo"), other})
	for namespace, want := range map[string][]string{"": {"other", "demo"}, "b": {"other"}, "ns": {"demo"}, "c": nil} {
		w.requested = namespace
		_, r := shown(t, w)
		var got []string
		for _, e := range r.ClusterExtensions {
			got = append(got, e.Name)
		}
		require.Equal(t, want, got, namespace)
	}
}

func binding(namespace, name, role string, subjects ...rbacv1.Subject) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: role}, Subjects: subjects}
}

func userOf(extension string) rbacv1.Subject { return scoped.Identity{Extension: extension}.Subject() }

func role(namespace, name string) client.Object {
	if namespace == "" {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestReportsGrantsThatNoClusterExtensionUses(t *testing.T) {
	account := running("by-account")
	account.Spec.ServiceAccount.Name = "acct"
	objs := []client.Object{
		binding("", "admin", "cluster-admin", userOf("gone"), userOf("demo")),
		binding("", "used", "cluster-admin", userOf("demo")),
		binding("", "group", "view", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: names.GroupExtensions}),
		binding("", "a-group-of-that-name", "view", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "olm:clusterextension:gone"}),
		binding("", "switched", "view", userOf("by-account")),
		binding("a", "remit-extension-grant-gone:0", "remit-extension-grant-gone:0", userOf("gone")),
		role("a", "remit-extension-grant-gone:0"),
		role("a", "remit-extension-grant-demo:0"),
		role("", "remit-extension-grant-gone:1"),
		role("", "remit-extension-grant-without-a-hash"),
		role("", "remit-extension-enrollment-half"),
		binding("", "remit-extension-enrollment-", "remit-extension-enrollment-"),
	}
	objs = append(append(objs, enrollmentOf("demo")...), enrollmentOf("gone")...)
	objs = append(objs, scoped.ExtensionAccountEnrollment(scoped.ServiceAccountIdentity(client.ObjectKey{Namespace: "ns", Name: "acct"}).Account.Key(), names.DefaultNamespace)...)
	objs = append(objs, scoped.ExtensionAccountEnrollment(client.ObjectKey{Namespace: "ns", Name: "left"}, names.DefaultNamespace)...)
	w := givenExtensions(t, []olmv1.ClusterExtension{running("demo"), account}, objs...)
	text, r := shown(t, w)
	_, text, _ = strings.Cut(text, "Permissions that ")
	require.Equal(t, `no ClusterExtension uses. A new ClusterExtension with the same identity gets them:
  cluster-wide
    ClusterRole remit-extension-enrollment-half: enrolls User olm:clusterextension:half
    ClusterRole remit-extension-grant-gone:1: User olm:clusterextension:gone
    ClusterRoleBinding admin (ClusterRole cluster-admin): User olm:clusterextension:gone
    ClusterRoleBinding remit-extension-enrollment-gone (ClusterRole remit-extension-enrollment-gone): enrolls User olm:clusterextension:gone
    ClusterRoleBinding switched (ClusterRole view): User olm:clusterextension:by-account
  in namespace a
    RoleBinding remit-extension-grant-gone:0 (Role remit-extension-grant-gone:0): User olm:clusterextension:gone
  in namespace ns
    RoleBinding remit-extension-enrollment-left (Role remit-extension-enrollment-left): enrolls ServiceAccount ns/left
  To remove enrollments, run kubectl remit unenroll; delete the other objects with kubectl delete
`, text)
	require.False(t, r.blocked(), "unused grants do not count as blocked")

	w.requested = "a"
	_, r = shown(t, w)
	require.Equal(t, []Dangling{{Kind: "RoleBinding", Namespace: "a", Name: "remit-extension-grant-gone:0", Role: "Role remit-extension-grant-gone:0",
		Identities: []string{"User olm:clusterextension:gone"}}}, r.Dangling)

	for _, edit := range []func(){func() { w.hasExtensions = false }, func() { w.hasExtensions, w.rbac = true, nil }} {
		edit()
		_, r = shown(t, w)
		require.Empty(t, r.Dangling, "unknown")
	}
}

// A user who may write RBAC in one namespace cannot hide the unused grants in other namespaces.
func TestUnusedGrantsOfOneNamespaceDoNotHideOthers(t *testing.T) {
	var all []Dangling
	for i := range maxDangling + 5 {
		all = append(all, Dangling{Kind: "RoleBinding", Namespace: "a", Name: fmt.Sprint("b", i), Role: "Role x", Identities: []string{"User 1", "User 2", "User 3", "User 4"}})
	}
	all = append(all, Dangling{Kind: "RoleBinding", Namespace: "z", Name: "last", Role: "Role x", Identities: []string{"User 1"}})
	var b bytes.Buffer
	writeDangling(&b, all)
	require.Contains(t, b.String(), "    RoleBinding b0 (Role x): User 1, User 2, User 3 and 1 more\n")
	require.Contains(t, b.String(), "    and 5 more: see -o yaml\n  in namespace z\n    RoleBinding last (Role x): User 1\n")
	require.NotContains(t, b.String(), "b20 ")
}

// Bindings can name any number of users.
func TestABindingNamesEachUserOnce(t *testing.T) {
	require.Equal(t, []string{"User olm:clusterextension:a", "User olm:clusterextension:b"}, usersOf([]rbacv1.Subject{userOf("b"), userOf("a"), userOf("b"), userOf("")}))
	require.Equal(t, rbac.SubjectOf(scoped.Identity{Extension: "a"}).User, userOf("a").Name)
}
