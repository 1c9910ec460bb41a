package escape

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// stolenFromExtensions returns rows about the stolen token of the program for ClusterExtensions. test/extension tests which
// changes to the program's own objects the policies allow.
func stolenFromExtensions() []row {
	return []row{
		{number: "180d", title: "the stolen token of remit-extension, in Remit's own namespace and the whole cluster", holds: p0(), play: func(s *scene) {
			x := s.steal(names.ServiceAccountExtension, names.ServiceAccountOLM)
			x.atHome()
			x.attackOutsideRemit()
			x.inExtensions()
		}},
		{number: "180e", title: "the stolen token of remit-extension, and users and ServiceAccounts that are not enrolled", holds: p0(), boss: true, play: func(s *scene) {
			mine := s.extensionNamed(s.Namespace + "-mine")
			mine.enroll()
			mine.grant(p0())
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, s.impersonating(mine.User().Username(), nil, names.GroupExtensions))
			})
			s.impersonatesOnly(mine)
			x := s.steal(names.ServiceAccountExtension, names.ServiceAccountOLM)
			for _, name := range []string{accountName, bossName, "default"} { // the first one is enrolled for the other programs
				x.refused("a token of "+name, x.identity.SubResource("token").Create(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: s.Meta(name)}, &authenticationv1.TokenRequest{}))
			}
			s.enrollAccount("default")
			s.Eventually(func(c *assert.CollectT) {
				assert.NoError(c, x.identity.SubResource("token").Create(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: s.Meta("default")}, &authenticationv1.TokenRequest{}))
			})
			for _, other := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM} {
				y := s.steal(other, names.ServiceAccountExtension)
				y.refused("a token for "+other, y.identity.SubResource("token").Create(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: s.Meta("default")}, &authenticationv1.TokenRequest{}))
			}
		}},
	}
}

// attackOutsideRemit tries to read and write objects outside Remit's namespace: cluster-scoped objects and objects of tenants.
func (x *theft) attackOutsideRemit() {
	x.T.Helper()
	x.readRefused("a Secret of the control plane", "kube-system", "crown", &corev1.Secret{})
	x.readRefused("a ConfigMap of the control plane", "kube-system", "y", &corev1.ConfigMap{})
	meta := metav1.ObjectMeta{Name: "x"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: names.DefaultNamespace, Name: x.program}}
	for what, obj := range map[string]client.Object{
		"a Namespace":             &corev1.Namespace{ObjectMeta: meta},
		"a Node":                  &corev1.Node{ObjectMeta: meta},
		"a PersistentVolume":      &corev1.PersistentVolume{ObjectMeta: meta},
		"a ClusterRole":           &rbacv1.ClusterRole{ObjectMeta: meta},
		"a ClusterRoleBinding":    &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}, Subjects: subjects},
		"its own enrollment":      scoped.ExtensionEnrollment(scoped.Identity{Extension: "x"}, names.DefaultNamespace, scoped.ImpersonationLegacy)[0],
		"a webhook configuration": &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta},
		"a policy":                &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta},
		"a CRD":                   &apiextensionsv1.CustomResourceDefinition{ObjectMeta: meta},
		"a Role":                  &rbacv1.Role{ObjectMeta: x.Meta("x")},
		"a Pod":                   &corev1.Pod{ObjectMeta: x.Meta("x")},
		"a Secret":                &corev1.Secret{ObjectMeta: x.Meta("x")},
		"an InstallPlan":          &operatorsv1alpha1.InstallPlan{ObjectMeta: x.Meta("x")},
	} {
		x.createRefused(what, obj)
	}
	const relabeled = `{"metadata":{"labels":{"is":"mine"}}}`
	for what, obj := range map[string]client.Object{
		"a Namespace's labels":     &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.Namespace}},
		"a CRD of another tenant":  &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.acme.io"}},
		"a CRD of its own API":     &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusterextensions.olm.operatorframework.io"}},
		"a policy that limits it":  &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "remit-extension-self-finalizers"}},
		"the policy's binding":     &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "remit-extension-self-finalizers"}},
		"its own ClusterRole":      &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: x.program}},
		"an account's permissions": &rbacv1.Role{ObjectMeta: x.Meta(accountName)},
		"the account":              &corev1.ServiceAccount{ObjectMeta: x.Meta(accountName)},
	} {
		x.patchRefused(what, obj, relabeled)
	}
}

// inExtensions tries to change a ClusterExtension and a ClusterCatalog.
func (x *theft) inExtensions() {
	x.T.Helper()
	ext := x.extensionNamed(x.Namespace + "-x")
	live := ext.as("")
	live.Finalizers = []string{"example.com/theirs"}
	ext.create(live)
	x.T.Cleanup(func() {
		_ = cluster.Client.Patch(context.Background(), live.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	x.createRefused("a ClusterExtension", x.extensionNamed(x.Namespace+"-y").as(""))
	x.refused("a deletion", x.identity.Delete(x.T.Context(), live))
	for what, patch := range map[string]string{
		"the ServiceAccount":       `{"spec":{"serviceAccount":{"name":"boss"}}}`,
		"the version":              `{"spec":{"source":{"catalog":{"version":"9.9.9"}}}}`,
		"another finalizer":        `{"metadata":{"finalizers":["example.com/theirs","example.com/mine"]}}`,
		"removing a finalizer":     `{"metadata":{"finalizers":null}}`,
		"an annotation":            `{"metadata":{"annotations":{"olm.operatorframework.io/keep-crds":"true"}}}`,
		"an owner":                 `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`,
		"a spec and the finalizer": `{"spec":{"source":{"catalog":{"version":"9.9.9"}}},"metadata":{"finalizers":["example.com/theirs","olm.operatorframework.io/reset-conversions"]}}`,
	} {
		x.patchRefused(what, live, patch)
	}
	x.patchRefused("the image of a ClusterCatalog", &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "healthy"}},
		`{"spec":{"source":{"image":{"ref":"example.com/evil:v1"}}}}`)
	x.createRefused("a ClusterCatalog", &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
}

// impersonatesOnly asserts that the enrollment of a ClusterExtension does not allow impersonating any other user, nor its own
// user with other groups or extra fields.
func (s *scene) impersonatesOnly(enrolled *extension) {
	s.T.Helper()
	user := enrolled.User().Username()
	for what, attempt := range map[string]func() error{
		"another extension": func() error { return s.impersonating(user+"-x", nil, names.GroupExtensions) },
		"a prefix of its name": func() error {
			return s.impersonating(user[:len(user)-1], nil, names.GroupExtensions)
		},
		"an administrator":     func() error { return s.impersonating("remit-admin", nil) },
		"system:masters":       func() error { return s.impersonating(user, nil, names.GroupExtensions, "system:masters") },
		"only system:masters":  func() error { return s.impersonating(user, nil, "system:masters") },
		"a node":               func() error { return s.impersonating("system:node:remit-node", nil, "system:nodes") },
		"the stronger account": func() error { return s.impersonating(scoped.Username(s.Namespace, bossName), nil) },
		"another program": func() error {
			return s.impersonating(scoped.Username(names.DefaultNamespace, names.ServiceAccountOLM), nil)
		},
		"an extra field": func() error { return s.impersonating(user, map[string][]string{"a": {"b"}}, names.GroupExtensions) },
	} {
		err := attempt()
		require.ErrorContains(s.T, err, "cannot impersonate", what)
	}
}

// impersonating sends a dry run that impersonates a user with the stolen token of remit-extension.
func (s *scene) impersonating(user string, extra map[string][]string, groups ...string) error {
	s.T.Helper()
	c := s.impersonator(oracle.Thief, rest.ImpersonationConfig{UserName: user, Groups: groups, Extra: extra})
	return c.Create(s.T.Context(), &corev1.ConfigMap{ObjectMeta: s.Meta("stolen")}, client.DryRunAll)
}

// impersonator returns a client that impersonates a user with a token of remit-extension.
func (s *scene) impersonator(agent string, as rest.ImpersonationConfig) client.Client {
	s.T.Helper()
	config := rest.AnonymousClientConfig(cluster.Config())
	config.UserAgent = agent
	config.BearerToken = s.token(names.DefaultNamespace, names.ServiceAccountExtension)
	config.Impersonate = as
	c, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme(), Mapper: cluster.Client.RESTMapper()})
	require.NoError(s.T, err)
	return c
}
