package lockdown

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	crds    = "customresourcedefinitions"
	crdName = "greetings.sample.remit.dev"
)

// A tenant can install an operator that contains a CustomResourceDefinition even if the tenant's account has no
// permissions on CustomResourceDefinitions, because the installation's CRD account writes it.
func TestTheCRDAccountWritesNewCRDsForAccountsThatMayNot(t *testing.T) {
	c, err := bounded()
	require.NoError(t, err)
	tn := c.Tenant(t)
	for _, s := range tn.Needs(sampleBundle(t), bundle.Package, tn.Namespace).Scopes() {
		if rules := slices.DeleteFunc(s.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, crds) }); len(rules) > 0 {
			tn.Grant(s.Namespace, rules...)
		}
	}
	held := rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{crds}, Verbs: []string{"create", "patch"}}
	writer := &env.Tenant{T: t, Cluster: c, Namespace: names.DefaultNamespace, Account: types.NamespacedName{Namespace: names.DefaultNamespace, Name: crdWriter}}
	subscribed(tn)
	tn.Group(env.AccountName, tn.Namespace)

	// The install waits until the CRD account exists and is enrolled. Until then, it writes nothing.
	tn.PlanSays("InstallCheckFailed", "ServiceAccount remit/crd-writer (the installation's CRD account) not found")
	writer.Create(&corev1.ServiceAccount{ObjectMeta: writer.Meta(crdWriter)})
	tn.PlanSays("InstallCheckFailed", "ServiceAccount remit/crd-writer is not enrolled")
	tn.NothingWritten()
	writer.Enroll()
	tn.PlanSays("InstallComponentFailed", `User "system:serviceaccount:remit:crd-writer" cannot`)
	writer.Grant(rbac.ClusterScope, held)

	tn.Succeeded(bundle.CSV)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
	users := map[string]bool{}
	_, err = c.Audited(t.Context(), func(e audit.Event) bool {
		if e.Object != nil && e.Object.Resource == crds && e.Object.Name == crdName && e.IsWrite() && e.Object.Subresource == "" {
			users[e.User.Username] = true
		}
		return false
	})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{scoped.Username(names.DefaultNamespace, crdWriter): true}, users)

	// For the next tenant, the CRD is already served, so neither account needs to write it.
	version := crd.ResourceVersion
	writer.Withdraw()
	other := c.Tenant(t)
	for _, s := range other.Needs(sampleBundle(t), bundle.Package, other.Namespace).Scopes() {
		if s.Namespace != rbac.ClusterScope {
			other.Grant(s.Namespace, s.Rules...)
		}
	}
	subscribed(other)
	other.Group(env.AccountName, other.Namespace)
	other.Succeeded(bundle.CSV)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: crdName}, crd))
	require.Equal(t, version, crd.ResourceVersion)
}

// The CRD account reads all existing objects, including objects that the tenant's account is not allowed to read. The
// report contains details only of objects that the tenant's account is allowed to read.
func TestReportsOnlyFindingsOfTheCRDAccountThatTheAccountMayRead(t *testing.T) {
	c, writer := withWriter(t)
	tn := c.Tenant(t)
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	group, other := tn.Namespace+".example.com", tn.Other(nil)
	all := env.Brings{"a.v1.0.0": env.Gadgets(group), "a.v2.0.0": env.Gadgets(group, env.Requiring("size"))}
	tn.PublishWith("catalog", all, "a.v1.0.0 stable")
	tn.Subscribe("catalog", "a", "stable")
	tn.Succeeded("a.v1.0.0")
	mine, foreign := tn.Gadget(group, "v1", tn.Namespace, "own-gadget"), tn.Gadget(group, "v1", other, "foreign-gadget")
	tn.Grant(rbac.ClusterScope, patches(group)) // the definition has objects of others

	tn.PublishWith("catalog", all, "a.v1.0.0 stable", "a.v2.0.0 stable replaces=a.v1.0.0")
	refused := func(words ...string) {
		t.Helper()
		for _, w := range words {
			tn.SubscriptionSays(names.ConditionObjectsRefused, names.ReasonRefusedByRemit, w)
		}
		tn.Eventually(func(ct *assert.CollectT) {
			text := fmt.Sprintf("%+v", tn.Subscription(ct).Status)
			assert.NotContains(ct, text, "foreign-gadget")
			assert.NotContains(ct, text, other)
			assert.NotContains(ct, text, env.GadgetOwner)
		})
	}
	refused("existing objects must be validated against the new schema", `User "system:serviceaccount:remit:crd-writer" cannot list resource "gadgets"`)
	reads := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"list"}}
	writer.Grant(rbac.ClusterScope, reads)
	refused("2 object(s) would be invalid in version v1: 2 in namespaces that the OperatorGroup does not select or its account is not allowed to read")
	require.NotContains(t, fmt.Sprintf("%+v", tn.Subscription(t).Status), "own-gadget")
	tn.Grant(tn.Namespace, reads)
	refused("2 object(s) would be invalid in version v1: " + tn.Namespace + "/own-gadget (spec.size: Required value), 1 in namespaces that the OperatorGroup does not select")

	tn.SetSize(mine)
	require.NoError(t, c.Client.Delete(t.Context(), foreign))
	tn.Succeeded("a.v2.0.0")
	readers := map[string]bool{}
	_, err := c.Audited(t.Context(), func(e audit.Event) bool {
		if e.Object != nil && e.Object.APIGroup == group && e.Verb == "list" && strings.HasPrefix(e.User.Username, "system:serviceaccount:remit:") {
			readers[e.User.Username] = true
		}
		return false
	})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{scoped.Username(names.DefaultNamespace, crdWriter): true}, readers)
}

// patches returns the permission to change the definition of gadgets.
func patches(group string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{crds}, ResourceNames: []string{"gadgets." + group}, Verbs: []string{"patch"}}
}

// changesGadgets returns an edit that removes a field and adds a default, which silently changes existing gadgets.
func changesGadgets(spec *apiextensionsv1.JSONSchemaProps) {
	delete(spec.Properties, "owner")
	spec.Properties["size"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("7")}}
}

// upgradesGadgets installs an operator with gadgets, creates a gadget in each of the namespaces, and offers a version that changes
// all gadgets.
func upgradesGadgets(tn *env.Tenant, writer *env.Tenant, namespaces ...string) (group string, gadgets []*unstructured.Unstructured) {
	tn.T.Helper()
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	group = tn.Namespace + ".example.com"
	writer.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"list"}})
	all := env.Brings{"a.v1.0.0": env.Gadgets(group), "a.v2.0.0": env.Gadgets(group, changesGadgets)}
	tn.PublishWith("catalog", all, "a.v1.0.0 stable")
	tn.Subscribe("catalog", "a", "stable")
	tn.Succeeded("a.v1.0.0")
	for _, namespace := range namespaces {
		gadgets = append(gadgets, tn.Gadget(group, "v1", namespace, "gadget"))
	}
	tn.PublishWith("catalog", all, "a.v1.0.0 stable", "a.v2.0.0 stable replaces=a.v1.0.0")
	return group, gadgets
}

// changedBy returns the users who changed the definition of gadgets.
func changedBy(tn *env.Tenant, group string) map[string]bool {
	tn.T.Helper()
	users := map[string]bool{}
	_, err := tn.Cluster.Audited(tn.T.Context(), func(e audit.Event) bool {
		if e.Object != nil && e.Object.Resource == crds && e.Object.Name == "gadgets."+group && e.Wrote() && e.Object.Subresource == "" {
			users[e.User.Username] = true
		}
		return false
	})
	require.NoError(tn.T, err)
	return users
}

// With a CRD account, a tenant who has no permission on CustomResourceDefinitions must not change the objects of another tenant
// by upgrading an operator (ADR 0068).
func TestTheCRDAccountChangesNoDefinitionThatOthersUse(t *testing.T) {
	c, writer := withWriter(t)
	tn := c.Tenant(t)
	other := tn.Other(nil)
	group, gadgets := upgradesGadgets(tn, writer, tn.Namespace, other)
	for _, words := range []string{`cannot patch resource "customresourcedefinitions"`, "gadgets." + group,
		`changes defaults in version "v1", removes fields in version "v1"`, "objects that are not in namespaces of this account exist"} {
		tn.SubscriptionSays(names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, words)
	}
	foreign := gadgets[1].DeepCopy()
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	require.Equal(t, gadgets[1].Object["spec"], foreign.Object["spec"])
	require.Equal(t, map[string]bool{scoped.Username(names.DefaultNamespace, crdWriter): true}, changedBy(tn, group))

	tn.Grant(rbac.ClusterScope, patches(group))
	tn.Succeeded("a.v2.0.0")
	require.True(t, changedBy(tn, group)[scoped.Username(tn.Namespace, env.AccountName)])
}

func TestTheCRDAccountChangesADefinitionThatOnlyTheAccountUses(t *testing.T) {
	c, writer := withWriter(t)
	tn := c.Tenant(t)
	group, gadgets := upgradesGadgets(tn, writer, tn.Namespace)
	tn.Succeeded("a.v2.0.0")
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(gadgets[0]), gadgets[0]))
	require.Equal(t, map[string]any{"size": int64(7)}, gadgets[0].Object["spec"])
	require.Equal(t, map[string]bool{scoped.Username(names.DefaultNamespace, crdWriter): true}, changedBy(tn, group))
}

// withWriter returns the cluster with a CRD account that may write CustomResourceDefinitions.
func withWriter(t *testing.T) (*env.Cluster, *env.Tenant) {
	t.Helper()
	c, err := bounded()
	require.NoError(t, err)
	writer := &env.Tenant{T: t, Cluster: c, Namespace: names.DefaultNamespace, Account: types.NamespacedName{Namespace: names.DefaultNamespace, Name: crdWriter}}
	account := &corev1.ServiceAccount{ObjectMeta: writer.Meta(crdWriter)}
	require.NoError(t, client.IgnoreAlreadyExists(c.Client.Create(t.Context(), account)))
	writer.Enroll()
	granted := writer.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{crds}, Verbs: []string{"create", "patch"}})
	t.Cleanup(func() { // other tests expect the CRD account not to exist
		for _, obj := range append(scoped.Enrollment(writer.Account, c.Home), account, granted) {
			require.NoError(t, client.IgnoreNotFound(c.Client.Delete(context.Background(), obj)))
		}
	})
	return c, writer
}

// The CRD account has more permissions than the tenant's account. A bundle's CustomResourceDefinition must therefore
// contain neither the address of a conversion webhook nor instructions for other programs (ADR 0022, 0029).
func TestTheCRDAccountWritesNoConversionOfTheBundle(t *testing.T) {
	c, _ := withWriter(t)
	tn := c.Tenant(t)
	tn.GrantReleases()
	tn.Group(env.AccountName, tn.Namespace)
	group := tn.Namespace + ".example.com"
	hostile := env.Gadgets(group)
	hostile.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "kube-system/crown", "example.com/kept": "yes"}
	hostile.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/convert")},
	}}
	tn.PublishWith("catalog", env.Brings{"a.v1.0.0": hostile}, "a.v1.0.0 stable")
	tn.Subscribe("catalog", "a", "stable")
	tn.Succeeded("a.v1.0.0")
	made := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "gadgets." + group}, made))
	require.Equal(t, apiextensionsv1.NoneConverter, made.Spec.Conversion.Strategy)
	require.Nil(t, made.Spec.Conversion.Webhook)
	require.Equal(t, "yes", made.Annotations["example.com/kept"])
	require.NotContains(t, made.Annotations, "cert-manager.io/inject-ca-from")
}

// An invalid config in the Subscription must not hide that the account needs permission for the conversion (ADR 0022): the API
// server would otherwise call a Service of the tenant for the objects of all namespaces.
func TestTheCRDAccountSetsNoConversionThatTheAccountMayNotSet(t *testing.T) {
	c, _ := withWriter(t)
	tn := c.Tenant(t)
	verbs := []string{"get", "create", "patch", "delete"}
	tn.GrantReleases()
	tn.Grant(tn.Namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services", "secrets"}, Verbs: verbs})
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: verbs},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces"}, Verbs: []string{"get", "list", "watch"}})
	tn.Group(env.AccountName)
	group := tn.Namespace + ".example.com"
	gadgets := env.Gadgets(group)
	v2 := *gadgets.Spec.Versions[0].DeepCopy()
	v2.Name, v2.Storage = "v2", false
	gadgets.Spec.Versions = append(gadgets.Spec.Versions, v2)
	tn.PublishWith("catalog", env.Brings{"a.v1.0.0": gadgets}, "a.v1.0.0 stable converts")
	sub := tn.Subscribe("catalog", "a", "stable", func(s *operatorsv1alpha1.SubscriptionSpec) {
		s.Config = &operatorsv1alpha1.SubscriptionConfig{Annotations: map[string]string{"cert-manager.io/inject-ca-from": "kube-system/x"}}
	})
	made := &apiextensionsv1.CustomResourceDefinition{}
	name := client.ObjectKey{Name: "gadgets." + group}
	notWritten := func() {
		t.Helper()
		require.True(t, apierrors.IsNotFound(c.Client.Get(t.Context(), name, made)))
		require.Empty(t, changedBy(tn, group))
		tn.NothingWritten()
	}
	tn.PlanSays("InstallCheckFailed", "spec.config of the Subscription is invalid for ClusterServiceVersion "+tn.Namespace+"/a.v1.0.0: webhooks and APIs cannot be served: "+
		`annotation cert-manager.io/inject-ca-from: "kube-system/x" is not in namespace "`+tn.Namespace+`"`)
	notWritten()

	require.NoError(t, c.Client.Patch(t.Context(), sub, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":null}}`))))
	missing := tn.PermissionsMissing()
	require.Contains(t, missing, `is missing 1 permission`)
	require.Contains(t, missing, `cannot patch resource "customresourcedefinitions" in API group "apiextensions.k8s.io" at the cluster scope (named "gadgets.`+group+`")`)
	notWritten()

	tn.Paste(missing)
	tn.Succeeded("a.v1.0.0")
	require.NoError(t, c.Client.Get(t.Context(), name, made))
	require.Equal(t, apiextensionsv1.WebhookConverter, made.Spec.Conversion.Strategy)
	require.Equal(t, tn.Namespace, made.Spec.Conversion.Webhook.ClientConfig.Service.Namespace)
}
