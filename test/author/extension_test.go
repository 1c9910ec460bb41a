package author

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
)

// extensionPolicy is the quoted name of the policy, which every refusal contains.
const extensionPolicy = "'remit-extension-author-check'"

// extensionSite has a namespace with two accounts, a name for a ClusterExtension, and users with all permissions on
// ClusterExtensions except the verb install.
type extensionSite struct {
	*testing.T
	cluster   *env.Cluster
	admin     client.Client
	namespace string
	name      string
}

// eachSchema runs a test with the schema of the API, and with one that accepts any spec.
func eachSchema(t *testing.T, test func(*testing.T, *extensionSite)) {
	for _, profile := range manifests.Profiles() {
		t.Run(profile, func(t *testing.T) { test(t, newExtensionSite(t, profile)) })
	}
}

func newExtensionSite(t *testing.T, profile string) *extensionSite {
	t.Helper()
	t.Parallel()
	suffix, cluster := rand.String(6), clusters[profile]
	s := &extensionSite{T: t, cluster: cluster, admin: cluster.Client, namespace: "extension-" + suffix, name: "demo-" + suffix}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	for _, name := range []string{installer, boss} {
		s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}})
	}
	return s
}

func (s *extensionSite) create(obj client.Object) {
	s.Helper()
	require.NoError(s, s.admin.Create(s.Context(), obj))
}

// author returns the client of a new user with these permissions in the namespace and cluster-wide.
func (s *extensionSite) author(inNamespace []rbacv1.PolicyRule, inCluster ...rbacv1.PolicyRule) *author {
	s.Helper()
	a := &author{extensionSite: s, name: "author-" + rand.String(6)}
	a.Client = s.cluster.As(s.T, a.name)
	verbs := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	a.grant(s.namespace, inNamespace...)
	a.grant("", append(inCluster, extensionRule([]string{"clusterextensions", "clusterextensions/status"}, "", verbs...))...)
	return a
}

type author struct {
	client.Client
	*extensionSite
	name string
}

// grant grants the rules and waits until the API server's authorizer observes them.
func (a *author) grant(namespace string, rules ...rbacv1.PolicyRule) {
	a.Helper()
	if len(rules) == 0 {
		return
	}
	defer a.observed(namespace, rules)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "grant-" + rand.String(8)}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: a.name}}
	if namespace == "" {
		a.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		a.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}})
		return
	}
	a.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	a.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}})
}

func (a *author) observed(namespace string, rules []rbacv1.PolicyRule) {
	a.Helper()
	for _, rule := range rules {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		spec := authorizationv1.SubjectAccessReviewSpec{User: a.name, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}}
		if len(rule.ResourceNames) > 0 {
			spec.ResourceAttributes.Name = rule.ResourceNames[0]
		}
		(&site{T: a.T}).eventually(func(c *assert.CollectT) {
			review := &authorizationv1.SubjectAccessReview{Spec: spec}
			assert.NoError(c, a.admin.Create(a.Context(), review))
			assert.True(c, review.Status.Allowed)
		})
	}
}

func extensionRule(resources []string, name string, verbs ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{"olm.operatorframework.io"}, Resources: resources, Verbs: verbs}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	return rule
}

func install(name string) rbacv1.PolicyRule {
	return extensionRule([]string{"clusterextensions"}, name, scoped.VerbInstall)
}

func impersonateUser(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: names, Verbs: []string{"impersonate"}}
}

func only(rules ...rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }

// extension returns a ClusterExtension that has not been created yet. Without an account, it has no spec.serviceAccount.
func (s *extensionSite) extension(name, account string) *unstructured.Unstructured {
	spec := map[string]any{"namespace": s.namespace, "source": map[string]any{"sourceType": "Catalog", "catalog": map[string]any{"packageName": "demo", "version": "1"}}}
	if account != "" {
		spec["serviceAccount"] = map[string]any{"name": account}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(extensionKind())
	obj.SetName(name)
	return obj
}

func extensionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "olm.operatorframework.io", Version: "v1", Kind: "ClusterExtension"}
}

// made creates the site's ClusterExtension as the administrator.
func (s *extensionSite) made(account string) *unstructured.Unstructured {
	s.Helper()
	obj := s.extension(s.name, account)
	s.create(obj)
	return obj
}

// account returns the ServiceAccount that the site's ClusterExtension names.
func (s *extensionSite) account() string {
	s.Helper()
	live := s.extension(s.name, "")
	require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(live), live))
	name, _, err := unstructured.NestedString(live.Object, "spec", "serviceAccount", "name")
	require.NoError(s, err)
	return name
}

func (s *extensionSite) refused(err error, says string) {
	s.Helper()
	require.Error(s, err)
	require.True(s, apierrors.IsForbidden(err), "%v", err)
	require.Contains(s, err.Error(), extensionPolicy)
	require.Contains(s, err.Error(), says)
}

func TestOnlyPermittedAuthorsInstallAnExtensionAsItsOwnUser(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *extensionSite) {
		user := "olm:clusterextension:" + s.name
		for what, a := range map[string]*author{
			"nothing":                            s.author(nil),
			"install on another extension":       s.author(nil, install("other")),
			"install in a namespace":             s.author(only(install(s.name))),
			"install on another resource":        s.author(nil, extensionRule([]string{"clustercatalogs"}, s.name, scoped.VerbInstall)),
			"impersonate another user":           s.author(nil, impersonateUser("olm:clusterextension:other", s.name)),
			"impersonate the group":              s.author(nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}}),
			"impersonate each ServiceAccount":    s.author(nil, impersonate()),
			"constrained impersonation of users": s.author(nil, rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, Verbs: []string{"impersonate:user-info"}}),
		} {
			s.refused(a.Create(t.Context(), s.extension(s.name, "")), "may not install as "+user)
			require.NoError(t, a.Delete(t.Context(), s.made("")), what)
		}
		for what, a := range map[string]*author{
			"install":                s.author(nil, install(s.name)),
			"install on all":         s.author(nil, install("")),
			"impersonate the user":   s.author(nil, impersonateUser(user)),
			"impersonate every user": s.author(nil, impersonateUser()),
		} {
			require.NoError(t, a.Create(t.Context(), s.extension(s.name, "")), what)
			require.NoError(t, a.Delete(t.Context(), s.extension(s.name, "")), what)
		}
	})
}

func TestAnExtensionNamesOnlyAccountsThatItsAuthorMayImpersonate(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *extensionSite) {
		says := "may not impersonate ServiceAccount " + s.namespace + "/" + boss + ", which spec.serviceAccount names"
		for what, a := range map[string]*author{
			"nothing":                         s.author(nil),
			"impersonate another account":     s.author(only(impersonate(installer))),
			"install on the extension":        s.author(nil, install(s.name)),
			"install on every extension":      s.author(nil, install("")),
			"impersonate the extension":       s.author(nil, impersonateUser()),
			"request tokens":                  s.author(only(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}})),
			"impersonate the user of boss":    s.author(nil, impersonateUser(scoped.Username(s.namespace, boss))),
			"impersonate in other namespaces": func() *author { a := s.author(nil); a.grant("default", impersonate()); return a }(),
		} {
			s.refused(a.Create(t.Context(), s.extension(s.name, boss)), says)
			require.NoError(t, a.Delete(t.Context(), s.made(boss)), what)
		}
		a := s.author(only(impersonate(installer)))
		require.NoError(t, a.Create(t.Context(), s.extension(s.name, installer)))

		// An account with the same name in another namespace is a different account.
		for _, namespace := range []string{"default", "kube-system"} {
			obj := s.extension("other-"+s.name, installer)
			require.NoError(t, unstructured.SetNestedField(obj.Object, namespace, "spec", "namespace"))
			s.refused(a.Create(t.Context(), obj), "may not impersonate ServiceAccount "+namespace+"/"+installer)
		}
		require.NoError(t, s.admin.Create(t.Context(), s.extension("admin-"+s.name, boss)), "the administrator can name any account")
	})
}

// identityChanges returns a function for each way in which a request can change the identity. The function sets the account, or
// clears it if account is "".
func identityChanges() map[string]func(s *extensionSite, c client.Client, account string) error {
	patch := func(kind types.PatchType, set, clear string) func(*extensionSite, client.Client, string) error {
		return func(s *extensionSite, c client.Client, account string) error {
			text := clear
			if account != "" {
				text = fmt.Sprintf(set, account)
			}
			return c.Patch(s.Context(), s.extension(s.name, ""), client.RawPatch(kind, []byte(text)))
		}
	}
	return map[string]func(*extensionSite, client.Client, string) error{
		"update": func(s *extensionSite, c client.Client, account string) error {
			live, next := s.extension(s.name, ""), s.extension(s.name, account)
			require.NoError(s, s.admin.Get(s.Context(), client.ObjectKeyFromObject(live), live))
			next.SetResourceVersion(live.GetResourceVersion())
			return c.Update(s.Context(), next)
		},
		"merge patch": patch(types.MergePatchType, `{"spec":{"serviceAccount":{"name":%q}}}`, `{"spec":{"serviceAccount":null}}`),
		"merge patch of the name": patch(types.MergePatchType,
			`{"spec":{"serviceAccount":{"name":%q}}}`, `{"spec":{"serviceAccount":{"name":null}}}`),
		"empty name": patch(types.MergePatchType, `{"spec":{"serviceAccount":{"name":%q}}}`, `{"spec":{"serviceAccount":{"name":""}}}`),
		"JSON patch": patch(types.JSONPatchType, `[{"op":"add","path":"/spec/serviceAccount","value":{"name":%q}}]`,
			`[{"op":"add","path":"/spec/serviceAccount","value":{}},{"op":"remove","path":"/spec/serviceAccount"}]`),
		"server-side apply": func(s *extensionSite, c client.Client, account string) error {
			obj := s.extension(s.name, account)
			if account == "" {
				_ = unstructured.SetNestedMap(obj.Object, map[string]any{"name": ""}, "spec", "serviceAccount")
			}
			return c.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("me"), client.ForceOwnership)
		},
	}
}

func TestChecksEveryChangeOfAnExtensionsIdentity(t *testing.T) {
	for name, change := range identityChanges() {
		t.Run(name, func(t *testing.T) {
			s := newExtensionSite(t, manifests.ProfileBounded)
			a := s.author(only(impersonate(installer)), install(s.name))
			unprivileged := s.author(nil)
			s.made("")
			s.refused(change(s, a, boss), "may not impersonate ServiceAccount")
			s.refused(change(s, unprivileged, installer), "may not impersonate ServiceAccount")
			require.Empty(t, s.account())
			require.NoError(t, change(s, a, installer), "set")
			require.Equal(t, installer, s.account())

			s.refused(change(s, a, boss), "may not impersonate ServiceAccount")
			s.refused(change(s, unprivileged, ""), "may not install as olm:clusterextension:"+s.name)
			require.Equal(t, installer, s.account())
			require.NoError(t, change(s, a, ""), "unset")
			require.Empty(t, s.account())
		})
	}
}

func TestChecksChangesOfTheIdentityWithTheSchemaOfTheAPI(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileCompat)
	a, unprivileged := s.author(only(impersonate(installer)), install(s.name)), s.author(nil)
	s.made("")
	for _, account := range []string{installer, ""} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"serviceAccount":null}}`))
		if account != "" {
			patch = client.RawPatch(types.MergePatchType, []byte(`{"spec":{"serviceAccount":{"name":"installer"}}}`))
		}
		s.refused(unprivileged.Patch(t.Context(), s.extension(s.name, ""), patch), "may not")
		require.NoError(t, a.Patch(t.Context(), s.extension(s.name, ""), patch))
		require.Equal(t, account, s.account())
	}
}

func TestAnExtensionsNamespaceIsPartOfItsIdentity(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileBounded)
	a := s.author(only(impersonate(installer)))
	s.made(installer)
	move := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"namespace":"default"}}`))
	s.refused(a.Patch(t.Context(), s.extension(s.name, ""), move), "may not impersonate ServiceAccount default/"+installer)
}

// The identity installs what the spec selects and configures, so each of these changes is a use of the identity.
func TestChecksEveryChangeOfWhatAnExtensionInstalls(t *testing.T) {
	for _, account := range []string{"", installer} {
		eachSchema(t, func(t *testing.T, s *extensionSite) {
			unprivileged, a := s.author(nil), s.author(only(impersonate(installer)), install(s.name))
			obj := s.made(account)
			says := map[string]string{"": "may not install as olm:clusterextension:" + s.name, installer: "may not impersonate ServiceAccount " + s.namespace + "/" + installer}[account]
			for _, edit := range []string{
				`{"spec":{"source":{"catalog":{"version":"2"}}}}`,
				`{"spec":{"source":{"catalog":{"channels":["beta"]}}}}`,
				`{"spec":{"source":{"catalog":{"selector":{"matchLabels":{"a":"b"}}}}}}`,
				`{"spec":{"source":{"catalog":{"upgradeConstraintPolicy":"SelfCertified"}}}}`,
				`{"spec":{"install":{"preflight":{"crdUpgradeSafety":{"enforcement":"None"}}}}}`,
				`{"spec":{"config":{"configType":"Inline","inline":{"deploymentConfig":{"volumes":[{"name":"root","hostPath":{"path":"/"}}]}}}}}`,
				`{"spec":{"config":{"inline":{"deploymentConfig":{"env":[{"name":"LD_PRELOAD","value":"/evil.so"}]}}}}}`,
			} {
				patch := client.RawPatch(types.MergePatchType, []byte(edit))
				s.refused(unprivileged.Patch(t.Context(), obj.DeepCopy(), patch), says)
				require.NoError(t, a.Patch(t.Context(), obj.DeepCopy(), patch), edit)
			}
		})
	}
}

// Otherwise, permissions that are still granted to the name would apply to another author's content.
func TestARecreatedExtensionIsCheckedAgain(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *extensionSite) {
		unprivileged := s.author(nil)
		obj := s.made("")
		require.NoError(t, unprivileged.Delete(t.Context(), obj))
		s.refused(unprivileged.Create(t.Context(), s.extension(s.name, "")), "may not install as")
		apply := client.ApplyConfigurationFromUnstructured(s.extension(s.name, ""))
		s.refused(unprivileged.Apply(t.Context(), apply, client.FieldOwner("me")), "may not install as")

		generated := s.extension("", "")
		generated.SetGenerateName(s.name)
		s.refused(unprivileged.Create(t.Context(), generated), "may not install as olm:clusterextension:"+s.name)
	})
}

// The author may have none of the permissions of the identity, or may have lost them.
func TestOtherChangesOfAnExtensionAreNotChecked(t *testing.T) {
	for _, account := range []string{"", boss} {
		eachSchema(t, func(t *testing.T, s *extensionSite) {
			unprivileged := s.author(nil)
			obj := s.made(account)
			for _, edit := range []string{
				`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/keep"]}}`,
				`{"spec":{"source":{"catalog":{"version":"1"}}}}`, // the same as before
				`{"status":{"x":"y"}}`,
			} {
				require.NoError(t, unprivileged.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(edit))), edit)
			}
			status := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"serviceAccount":{"name":"installer"}},"status":{"x":"z"}}`))
			require.NoError(t, unprivileged.Status().Patch(t.Context(), obj, status))
			require.Equal(t, account, s.account(), "the status endpoint does not change the spec")
			keep := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"olm.operatorframework.io/keep-crds":"true"}}}`))
			s.refused(unprivileged.Patch(t.Context(), obj.DeepCopy(), keep), "user") // without it, all objects of the kinds are deleted
			require.NoError(t, s.admin.Patch(t.Context(), obj.DeepCopy(), keep))
			require.NoError(t, unprivileged.Delete(t.Context(), obj))
			require.NoError(t, unprivileged.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		})
	}
}

// The record says for which namespace this policy has checked the author of the spec (docs/adr/0083).
func TestOnlyRemitRecordsTheNamespaceOfAnExtension(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *extensionSite) {
		unprivileged := s.author(nil)
		obj := s.made(boss)
		record := func(c client.Client, value string) error {
			return c.Status().Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"namespace":%s}}`, value)))
		}
		const first, second = `{"generation":1,"uid":"a"}`, `{"generation":1,"uid":"b"}`
		remit := &author{extensionSite: s, name: scoped.Username(s.cluster.Home, "remit-extension")}
		remit.Client = s.cluster.As(t, remit.name)
		remit.grant("", extensionRule([]string{"clusterextensions/status"}, "", "patch"))
		for _, c := range []client.Client{unprivileged, s.admin} {
			s.refused(record(c, first), "only Remit may change status.namespace, status.install and status.inventory of a ClusterExtension")
		}
		require.NoError(t, record(remit, first))
		for _, c := range []client.Client{unprivileged, s.admin} {
			s.refused(record(c, second), "only Remit may change status.namespace, status.install and status.inventory of a ClusterExtension")
			s.refused(record(c, "null"), "only Remit may change status.namespace, status.install and status.inventory of a ClusterExtension")
		}
		require.NoError(t, record(remit, second))
		installed := client.RawPatch(types.MergePatchType, []byte(`{"status":{"install":{"bundle":{"name":"op.v1.0.0","version":"1.0.0"}}}}`))
		for _, c := range []client.Client{unprivileged, s.admin} { // it decides which versions the next one may be
			s.refused(c.Status().Patch(t.Context(), obj.DeepCopy(), installed), "status.install")
		}
		require.NoError(t, remit.Status().Patch(t.Context(), obj.DeepCopy(), installed))
	})
}

// The inventory says which objects an upgrade removes and which webhooks are bounded.
func TestOnlyRemitWritesTheInventoryOfAnExtension(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *extensionSite) {
		unprivileged, remit := s.author(nil), &author{extensionSite: s, name: scoped.Username(s.cluster.Home, "remit-extension")}
		remit.Client = s.cluster.As(t, remit.name)
		remit.grant("", extensionRule([]string{"clusterextensions/status"}, "", "patch"))
		obj := s.made(boss)
		list := func(c client.Client, value string) error {
			return c.Status().Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"inventory":%s}}`, value)))
		}
		const service, secret = `{"kind":"Service","namespace":"a","name":"webhook"}`, `{"kind":"Secret","namespace":"victim","name":"db-password"}`
		for _, c := range []client.Client{unprivileged, s.admin} {
			s.refused(list(c, "["+secret+"]"), "status.inventory")
		}
		require.NoError(t, list(remit, "["+service+"]"))
		for _, c := range []client.Client{unprivileged, s.admin} {
			for _, forged := range []string{"[" + secret + "]", "[" + service + "," + secret + "]", "[]", "null"} {
				s.refused(list(c, forged), "status.inventory")
			}
			require.NoError(t, list(c, "["+service+"]"), "this changes nothing")
		}
		require.NoError(t, list(remit, "["+service+","+secret+"]"))
	})
}

func TestTheMessageContainsTheCommandThatAllowsAnExtension(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileBounded)
	s.grantAll()
	for _, user := range []string{"mallory/o'hara $(reboot)", "group:50%~1"} {
		mallory := s.cluster.As(t, user)
		subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}
		objs := scoped.ExtensionAuthorship(s.name, subject)
		(&site{T: t}).eventually(func(c *assert.CollectT) {
			assert.ErrorContains(c, mallory.Create(t.Context(), s.extension(s.name, "")), fmt.Sprintf(
				"kubectl create clusterrole %[1]s --verb=install --resource=clusterextensions.olm.operatorframework.io --resource-name=%[2]s && "+
					"kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --user=%[3]s", quote(objs[0].GetName()), s.name, quote(user)))
		})
		role := scoped.Authorship(client.ObjectKey{Namespace: s.namespace, Name: boss}, subject)[0].GetName()
		require.ErrorContains(t, mallory.Create(t.Context(), s.extension(s.name, boss)), fmt.Sprintf(
			"kubectl create role %[1]s -n %[2]s --verb=impersonate --resource=serviceaccounts --resource-name=boss && "+
				"kubectl create rolebinding %[1]s -n %[2]s --role=%[1]s --user=%[3]s", quote(role), s.namespace, quote(user)))

		for _, obj := range objs {
			s.create(obj)
		}
		(&site{T: t}).eventually(func(c *assert.CollectT) {
			assert.NoError(c, mallory.Create(t.Context(), s.extension(s.name, ""), client.DryRunAll))
		})
	}
}

// grantAll lets every user create the ClusterExtensions that the author check allows.
func (s *extensionSite) grantAll() {
	meta := metav1.ObjectMeta{Name: "all-" + s.name}
	s.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: only(extensionRule([]string{"clusterextensions"}, "", "create"))})
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
	})
}

func TestExtensionsNameOnlyPossibleAccounts(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileBounded)
	a := s.author(only(impersonate()))
	for _, name := range []string{"/", "..", "Installer", "*", "installer ", strings.Repeat("a", 300), "'; reboot '"} {
		unprivileged := s.author(nil)
		err := unprivileged.Create(t.Context(), s.extension(s.name, name))
		s.refused(err, "No ServiceAccount can have that name.")
		require.NotContains(t, err.Error(), "kubectl")
	}
	s.refused(s.author(nil).Create(t.Context(), s.extension(s.name, "a\nb")), "the author is not allowed to use the identity")
	require.NoError(t, a.Create(t.Context(), s.extension(s.name, "missing")), "the account need not exist yet")
}

// The names of roles in grants for ClusterExtensions identify their subjects.
func TestAGrantForAnExtensionBindsOnlyTheSubjectInItsName(t *testing.T) {
	s := newExtensionSite(t, manifests.ProfileBounded)
	enrollment := scoped.ExtensionEnrollment(scoped.Identity{Extension: s.name}, "remit", scoped.ImpersonationConstrained)
	author := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team"}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	}
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: name}
	}
	for role, allowed := range map[string]rbacv1.Subject{
		"remit-extension-grant-" + s.name + ":aaaaaaaa":            user("olm:clusterextension:" + s.name),
		"remit-extension-grant-" + s.name + ":aaaaaaaa-2":          user("olm:clusterextension:" + s.name),
		enrollment[0].GetName():                                    account("remit-extension"),
		scoped.ExtensionAuthorship(s.name, author)[0].GetName():    author,
		scoped.ExtensionAuthorship(s.name, user("a"))[0].GetName(): user("a"),
	} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b-" + rand.String(8)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		}
		for _, other := range []rbacv1.Subject{
			user("mallory"), user("olm:clusterextension:other"), {Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "olm:clusterextensions"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "remit-extension"}, account("remit-olm"), user("group:team"),
			{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "a"}, user("team"),
		} {
			for _, subjects := range [][]rbacv1.Subject{{other}, {allowed, other}} {
				binding := binding.DeepCopy()
				binding.Subjects = subjects
				require.ErrorContains(t, s.admin.Create(t.Context(), binding), "may be bound to it", "%s %v", role, other)
			}
		}
		s.create(binding)
		binding.Subjects = []rbacv1.Subject{user("mallory")}
		require.ErrorContains(t, s.admin.Update(t.Context(), binding), "may be bound to it")
		binding.Subjects = []rbacv1.Subject{allowed}
		require.NoError(t, s.admin.Update(t.Context(), binding))
		cluster := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding.Name}, Subjects: []rbacv1.Subject{user("mallory")},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		require.ErrorContains(t, s.admin.Create(t.Context(), cluster), "may be bound to it")
	}
	for _, obj := range enrollment {
		s.create(obj)
	}
	role, ok := enrollment[0].(*rbacv1.ClusterRole)
	require.True(t, ok)
	role.Rules = role.Rules[:1]
	require.ErrorContains(t, s.admin.Update(t.Context(), role), "cannot be changed")
}
