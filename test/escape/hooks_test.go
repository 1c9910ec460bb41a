package escape

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// hook returns a webhook definition for the probe's Deployment. The rules and the additional fields are YAML.
func hook(kind, rules string, more ...string) any {
	return forge.Value(fmt.Sprintf(`{type: %sAdmissionWebhook, generateName: probe.escape.test, deploymentName: %s, containerPort: 443,
 admissionReviewVersions: [v1], sideEffects: None, rules: [%s]%s}`, kind, forge.Deployment, rules, strings.Join(append([]string{""}, more...), ", ")))
}

// intercepting returns a webhook rule as YAML.
func intercepting(group, resources, operations string) string {
	return fmt.Sprintf(`{apiGroups: [%q], apiVersions: ["*"], resources: [%s], operations: [%s]}`, group, resources, operations)
}

func withPort(d any, port int64) any {
	fields, _ := d.(map[string]any)
	fields["containerPort"] = port
	return fields
}

func hooked(c forge.CSV, hooks ...any) forge.CSV { return c.Set(hooks, "spec", "webhookdefinitions") }

// harmless returns a webhook on ConfigMaps, which profile P0 allows the account to read and write in its namespace.
func harmless() any {
	return hook("Validating", intercepting("", "configmaps", "DELETE"), "failurePolicy: Ignore")
}

// calling extends a profile with permissions to write all webhook configurations and APIServices, and with the given
// rules.
func calling(p profile, more ...rbacv1.PolicyRule) profile {
	verbs := []string{"get", "create", "patch", "delete"}
	p.cluster = slices.Concat(p.cluster, []rbacv1.PolicyRule{
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations mutatingwebhookconfigurations", verbs...),
		rule("apiregistration.k8s.io", "apiservices", verbs...),
	}, more)
	return p
}

// serving is like calling, but also adds permissions to write the bindings that an API needs.
func serving(p profile) profile {
	return calling(p,
		rule(rbacv1.GroupName, "clusterrolebindings rolebindings", "get", "create", "patch", "delete"),
		rule("authentication.k8s.io", "tokenreviews", "create"), rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"}, Verbs: []string{"get", "list", "watch"}})
}

// forAll extends a profile with the permissions that an operator for all namespaces needs.
func forAll(p profile) profile {
	p.cluster = append(p.cluster, rule(rbacv1.GroupName, "clusterroles clusterrolebindings", "get", "create", "patch", "delete"),
		rule("", "configmaps namespaces", "get", "list", "watch", "delete"))
	return p
}

// owningAPI makes a CSV own an API.
func owningAPI(c forge.CSV, group, version string) forge.CSV {
	return c.Set([]any{map[string]any{
		"group": group, "version": version, "kind": "Thing", "name": "things", "deploymentName": forge.Deployment, "containerPort": int64(5443),
	}}, "spec", "apiservicedefinitions", "owned")
}

// invalid returns a row with a CSV that no account can install: the plan must fail before anything is written, with a
// message that contains the words.
func invalid(number, title string, c forge.CSV, words ...string) row {
	return row{number: number, title: title, holds: serving(p1()), play: func(s *scene) {
		s.install(bundleOf(c))
		s.planSays(words...)
		s.nothingWritten()
		s.uncalled()
	}}
}

// uncallable returns a row with a CSV that must fail with a message that contains the words. No webhook or APIService
// may be created for it.
func uncallable(number, title string, c forge.CSV, words ...string) row {
	return row{number: number, title: title, holds: serving(p1()), play: func(s *scene) {
		s.install(bundleOf(c))
		s.csvSays(failed, words...)
		s.uncalled()
	}}
}

func webhooks() []row {
	needs := func(number, title string, holds profile, d any, words ...string) row {
		return row{number: number, title: title, holds: holds, play: func(s *scene) {
			s.install(bundleOf(hooked(csv(), d)))
			s.isMissing(words...)
			s.uncalled()
		}}
	}
	return []row{
		needs("31", "a mutating webhook on Pods under P0", p0(), hook("Mutating", intercepting("", "pods", "CREATE")), "mutatingwebhookconfigurations"),
		{number: "31-direct", title: "a mutating webhook on Pods, in a tenant's own CSV", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), hook("Mutating", intercepting("", "pods", "CREATE"))).Object))
			s.csvSays(failed, "mutatingwebhookconfigurations")
			s.noDeployments()
			s.uncalled()
		}},
		needs("31a", "a webhook on objects that the account may not write", calling(p0()), hook("Validating", intercepting("", "endpoints", "CREATE")),
			`cannot create resource "endpoints"`),
		needs("31b", "a webhook on objects that the account may create but not update", calling(profile{own: append(p0().own, rule("", "endpoints", "create"))}),
			hook("Validating", intercepting("", "endpoints", "'*'")), `cannot delete resource "endpoints"`, "update"),
		needs("31c", "a webhook on all resources of a group, when the account may write only some", calling(p0()),
			hook("Validating", intercepting("", "'*'", "CREATE")), `cannot create resource "*"`),
		needs("31d", "a webhook on evictions, which the account may not create", calling(p0()),
			hook("Validating", intercepting("", "pods/eviction", "CREATE")), `cannot create resource "pods/eviction"`),
		needs("31e", "a webhook on cluster-scoped objects", calling(p1()), hook("Validating", intercepting("", "namespaces", "DELETE")),
			`cannot delete resource "namespaces"`),
		needs("31f", "a webhook on Namespaces that intercepts none because of its scope", calling(p0()),
			hook("Validating", `{apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: [DELETE], scope: Namespaced}`), `cannot delete resource "namespaces"`),
		{number: "32", title: "a webhook on Secrets in all namespaces, which the account may not write", holds: forAll(calling(p0())), play: func(s *scene) {
			s.group()
			s.publish(bundleOf(hooked(onlyAllNamespaces(csv()), hook("Validating", intercepting("", "secrets", "CREATE")))))
			s.subscribe()
			s.isMissing(`cannot create resource "secrets"`)
			s.uncalled()
		}},
		{number: "32a", title: "a webhook on all namespaces excludes the system namespaces", holds: forAll(calling(p0())), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.group()
			s.publish(bundleOf(hooked(onlyAllNamespaces(csv()), harmless())))
			s.subscribe()
			s.Complete()
			s.csvSays(succeeded)
			require.Equal(s.T, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{"kube-node-lease", "kube-public", "kube-system", "remit", "remit-catalogs"},
			}}}, s.validating(s.T).Webhooks[0].NamespaceSelector)
			s.removeCSV()
			s.uncalled()
		}},
		invalid("34", "a webhook on webhooks", hooked(csv(), hook("Validating", intercepting("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "DELETE"))),
			"webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"),
		{number: "34d", title: "a webhook on admission policies", holds: forAll(calling(p0())), play: func(s *scene) {
			s.install(bundleOf(hooked(csv(), hook("Validating", intercepting("admissionregistration.k8s.io", "validatingadmissionpolicies", "DELETE")))))
			s.planSays(`may not intercept "validatingadmissionpolicies" in API group "admissionregistration.k8s.io"`)
			s.nothingWritten()
			s.uncalled()
		}},
		invalid("34a", "a webhook on Remit's own API", hooked(csv(), hook("Mutating", intercepting("operators.coreos.com", "clusterserviceversions", "DELETE"))),
			"webhook rules cannot include the OLM group"),
		invalid("34b", "a webhook on authentication", hooked(csv(), hook("Mutating", intercepting("authentication.k8s.io", "tokenreviews", "CREATE"))),
			"webhook rules cannot include the authentication and authorization API groups"),
		invalid("34c", "a webhook on authorization", hooked(csv(), hook("Mutating", intercepting("authorization.k8s.io", "subjectaccessreviews", "CREATE"))),
			"webhook rules cannot include the authentication and authorization API groups"),
		invalid("35", "a webhook that fails on the deletion of everything", hooked(csv(), hook("Validating", intercepting("*", "'*'", "DELETE"), "failurePolicy: Fail")),
			"webhook rules cannot include all groups"),
		{number: "35a", title: "a namespace can be deleted although its webhook fails on every deletion", holds: calling(p1()), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.install(bundleOf(hooked(csv(), hook("Validating", intercepting("", "'*'", "DELETE"), "failurePolicy: Fail", "timeoutSeconds: 1"))))
			s.Complete()
			s.csvSays(succeeded)
			s.deleteNamespace()
			s.Eventually(func(c *assert.CollectT) {
				assert.Empty(c, s.configurations(c))
				assert.True(c, apierrors.IsNotFound(cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: s.Namespace}, &corev1.Namespace{})))
			})
		}},
		invalid("36", "two webhooks with the same name", hooked(csv(), harmless(), harmless()), "CSV contains repeated WebhookDescription name"),
		invalid("36a", "a webhook for a Deployment that does not exist", hooked(csv(), forge.Value(strings.Replace(`{type: ValidatingAdmissionWebhook, generateName: probe.escape.test,
 deploymentName: elsewhere, containerPort: 443, admissionReviewVersions: [v1], sideEffects: None}`, "\n", "", 1))),
			`deployment "elsewhere" is not part of the install strategy`),
		revokedInterception(),
		{number: "36c", title: "a webhook on an invalid port", holds: calling(p0()), play: func(s *scene) {
			d := harmless()
			s.install(bundleOf(hooked(csv(), d).Set([]any{withPort(d, 99999)}, "spec", "webhookdefinitions")))
			s.planSays("containerPort")
			s.nothingWritten()
			s.uncalled()
		}},
		invalid("36b", "a certificate tool that would read a CA from another namespace", hooked(csv(), harmless()).
			Set(map[string]any{"cert-manager.io/inject-ca-from-secret": "kube-system/crown"}, "metadata", "annotations"), `is not in namespace`),
		{number: "37", title: "an OperatorGroup whose selector matches namespaces that a tenant labels", holds: calling(seesItself()), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return s.isForHooks(c) || c.Name == neighbor && c.Resource == "namespaces"
			})
			s.grantGet()
			label := map[string]string{"escape.test/team": s.Namespace}
			s.label(s.Namespace, label)
			s.Create(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName),
				Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, Selector: &metav1.LabelSelector{MatchLabels: label}}})
			s.publish(bundleOf(hooked(csv(), harmless())))
			s.subscribe()
			s.Complete()
			s.csvSays(succeeded)
			require.Equal(s.T, []string{s.Namespace}, s.reached(s.T))
			s.label(neighbor, label)
			s.Eventually(func(c *assert.CollectT) {
				assert.NotEqual(c, "install strategy completed with no errors", s.CSV(c, probeCSV).Status.Message)
			})
			s.settle()
			require.Equal(s.T, []string{s.Namespace}, s.reached(s.T), "labeling a namespace must not subject it to the webhook")
			s.label(neighbor, map[string]string{"escape.test/team": ""})
			s.csvSays(succeeded)
			s.removeCSV()
			s.uncalled()
		}},
	}
}

func apis() []row {
	occupied := func(s *scene, name string, c forge.CSV) {
		s.install(bundleOf(c))
		s.planSays("nothing was written", "APIService "+name+" "+collides)
		require.NoError(s.T, s.apply(s.mallory(), c.Object)) // without a plan
		s.csvSays(failed, "pre-existing APIService "+name+" is not adoptable")
	}
	rival := func(s *scene, name string, c forge.CSV, theirs *apiregistrationv1.APIService) {
		s.createOutside(theirs)
		occupied(s, name, c)
		after := &apiregistrationv1.APIService{}
		require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: name}, after))
		require.Equal(s.T, theirs.UID, after.UID)
		require.Equal(s.T, theirs.Spec, after.Spec)
	}
	return []row{
		{number: "38", title: "an API under P0", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(owningAPI(csv(), "evil.io", "v1")))
			s.isMissing("apiservices", "v1.evil.io")
			s.uncalled()
		}},
		{number: "38-direct", title: "an API, in a tenant's own CSV", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), owningAPI(csv(), "evil.io", "v1").Object))
			s.csvSays(failed, "apiservices")
			s.noDeployments()
			s.uncalled()
		}},
		invalid("38a", "an API in a Kubernetes API group", owningAPI(csv(), "evil.k8s.io", "v1"), "reserved"),
		invalid("38b", "Remit's own API", owningAPI(csv(), "operators.coreos.com", "v9"), "reserved"),
		invalid("38c", "an API that the API server serves itself", owningAPI(csv(), "apps", "v1"), `API group "apps" is reserved`),
		{number: "38d", title: "an API that another owner's CRD serves", holds: serving(p1()), play: func(s *scene) {
			occupied(s, "v1.acme.io", owningAPI(csv(), "acme.io", "v1"))
			s.uncalled()
		}},
		{number: "40", title: "an API that another owner's operator serves", holds: serving(p1()), play: func(s *scene) {
			rival(s, "v1.taken.escape.test", owningAPI(csv(), "taken.escape.test", "v1"), apiOf("taken.escape.test",
				ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: neighbor}, CSV: probeCSV}.Labels()))
		}},
		{number: "40a", title: "an existing APIService without an operator", holds: serving(p1()), play: func(s *scene) {
			rival(s, "v1.free.escape.test", owningAPI(csv(), "free.escape.test", "v1"), apiOf("free.escape.test", nil))
		}},
		invalid("41", "an API whose version contains a path", owningAPI(csv(), "evil.io", "v1/../x"), "is invalid"),
		{number: "41a", title: "a Deployment whose bindings would collide with those of another owner", holds: serving(p1()), play: func(s *scene) {
			s.allow(s.isForHooks)
			theirs := s.bindingOf("operator-service-system:auth-delegator")
			s.install(bundleOf(owningAPI(csv(), s.Namespace+".escape.test", "v1").Set("system:foo", "spec", "displayName")))
			s.Complete()
			s.Eventually(func(c *assert.CollectT) { assert.Len(c, s.delegators(c), 1) })
			after := &rbacv1.ClusterRoleBinding{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(theirs), after))
			require.Equal(s.T, theirs.ResourceVersion, after.ResourceVersion)
			s.removeCSV()
			s.uncalled()
		}},
		{number: "43", title: "Deployments with the same name in two namespaces, each with an API", holds: serving(p1()), play: func(s *scene) {
			s.allow(s.isForHooks)
			owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: neighbor}, CSV: probeCSV}
			theirs := s.bindingOf("operator-service-system:auth-delegator-" + ownerutil.Hash(owner.Namespace, owner.Package, "operator-service"))
			s.install(bundleOf(owningAPI(csv(), s.Namespace+".escape.test", "v1")))
			s.Complete()
			s.Eventually(func(c *assert.CollectT) {
				if ours := s.delegators(c); assert.Len(c, ours, 1) {
					assert.NotEqual(c, theirs.Name, ours[0].Name)
					assert.Equal(c, s.Namespace, ours[0].Subjects[0].Namespace)
				}
			})
			s.removeCSV()
			s.uncalled()
		}},
	}
}

// certificates returns rows about serving certificates.
func certificates() []row {
	taken := func(number, title string, theirs func(s *scene) client.Object) row {
		return row{number: number, title: title, holds: calling(p0()), play: func(s *scene) {
			obj := theirs(s)
			s.Create(obj)
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), harmless()).Object))
			s.Eventually(func(c *assert.CollectT) {
				csv := s.CSV(c, probeCSV)
				assert.NotEqual(c, succeeded, csv.Status.Phase)
				assert.Contains(c, csv.Status.Message, collides)
			})
			after, ok := obj.DeepCopyObject().(client.Object)
			require.True(s.T, ok)
			require.NoError(s.T, s.Get(obj.GetName(), after))
			require.Equal(s.T, obj.GetResourceVersion(), after.GetResourceVersion())
			s.noDeployments()
			s.uncalled()
		}}
	}
	evil := func(s *scene) cert.Pair {
		pair, err := cert.Policy{}.Issue(time.Now(), cert.Hosts(forge.Deployment, s.Namespace))
		require.NoError(s.T, err)
		return pair
	}
	return []row{
		taken("54", "a Secret with the name of the certificate's Secret", func(s *scene) client.Object {
			return &corev1.Secret{ObjectMeta: s.Meta("operator-service-cert"), Data: cert.Set{Current: evil(s)}.Data()}
		}),
		taken("54a", "a Service with the name of the operator's Service", func(s *scene) client.Object {
			return &corev1.Service{ObjectMeta: s.Meta("operator-service"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
		}),
		{number: "54b", title: "a CA that a user plants in a Secret with the operator's marks", holds: calling(p0()), play: func(s *scene) {
			s.allow(s.isForHooks)
			pair := evil(s)
			planted := &corev1.Secret{ObjectMeta: s.Meta("operator-service-cert"), Type: corev1.SecretTypeTLS, Data: cert.Set{Current: pair}.Data()}
			planted.Labels = ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: s.Namespace}, CSV: probeCSV}.Labels()
			s.Create(planted)
			occupied := "Secret " + s.Namespace + "/operator-service-cert already exists and was not created by this install"
			s.install(bundleOf(hooked(csv(), harmless())))
			s.planSays("nothing was written", occupied)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), harmless()).Object)) // without a plan
			s.Eventually(func(c *assert.CollectT) { assert.Contains(c, s.CSV(c, probeCSV).Status.Message, occupied) })
			s.settle()
			for _, config := range s.configurations(s.T) {
				require.False(s.T, cert.Trusts(config.Webhooks[0].ClientConfig.CABundle, pair.CA), "the planted CA must never be trusted")
			}
			s.removeCSV()
			s.uncalled()
		}},
		{number: "54c", title: "a CA that a user puts into the operator's Secret", holds: calling(p0()), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.install(bundleOf(hooked(csv(), harmless())))
			s.Complete()
			s.csvSays(succeeded)
			pair := evil(s)
			secret := &corev1.Secret{}
			require.NoError(s.T, s.Get("operator-service-cert", secret))
			before := secret.DeepCopy()
			secret.Data = cert.Set{Current: pair}.Data()
			require.NoError(s.T, s.mallory().Patch(s.T.Context(), secret, client.MergeFrom(before)))
			s.Eventually(func(c *assert.CollectT) { // trigger a reconcile after the change
				assert.NoError(c, s.touch(probeCSV))
				got := &corev1.Secret{}
				assert.NoError(c, s.Get("operator-service-cert", got))
				assert.NotEqual(c, string(pair.CA), string(got.Data[cert.KeyCA]))
			})
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, probeCSV).Status.Phase) })
			require.False(s.T, cert.Trusts(s.validating(s.T).Webhooks[0].ClientConfig.CABundle, pair.CA))
			s.removeCSV()
			s.uncalled()
		}},
		{number: "54d", title: "no message contains a private key", holds: calling(p0()), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.install(bundleOf(hooked(csv(), harmless())))
			s.Complete()
			s.csvSays(succeeded)
			secret := &corev1.Secret{}
			require.NoError(s.T, s.Get("operator-service-cert", secret))
			for key := range secret.Data {
				require.Contains(s.T, []string{cert.KeyCertificate, cert.KeyPrivate, cert.KeyCA}, key, "the private key of the CA is not stored")
			}
			csv := s.CSV(s.T, probeCSV)
			require.NotContains(s.T, statusText(s.T, csv.Status), "PRIVATE")
			s.removeCSV()
			s.uncalled()
		}},
	}
}

// isForHooks reports whether a change outside the namespace is expected when the scene's webhooks and APIs are
// installed, that is, whether it concerns a webhook configuration, an APIService or RBAC for an API.
func (s *scene) isForHooks(c oracle.Change) bool {
	switch c.Group {
	case "admissionregistration.k8s.io":
		return strings.HasPrefix(c.Name, "probe.escape.test-")
	case "apiregistration.k8s.io":
		return strings.HasSuffix(c.Name, s.Namespace+".escape.test")
	case rbacv1.GroupName:
		return c.Namespace == "" || strings.HasPrefix(c.Name, "operator-service-auth-reader-")
	}
	return false
}

func (s *scene) configurations(t assert.TestingT) []admissionregistrationv1.ValidatingWebhookConfiguration {
	list := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	assert.NoError(t, cluster.Client.List(s.T.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: s.Namespace}))
	return list.Items
}

// validating returns the scene's only ValidatingWebhookConfiguration.
func (s *scene) validating(t assert.TestingT) *admissionregistrationv1.ValidatingWebhookConfiguration {
	list := s.configurations(t)
	require.Len(s.T, list, 1)
	return &list[0]
}

// reached returns the namespaces in which the scene's webhook is called, according to its selector.
func (s *scene) reached(t assert.TestingT) []string {
	selector := s.validating(t).Webhooks[0].NamespaceSelector
	require.Equal(s.T, corev1.LabelMetadataName, selector.MatchExpressions[0].Key)
	require.Empty(s.T, selector.MatchLabels)
	return selector.MatchExpressions[0].Values
}

// uncalled asserts that no object makes the API server call the scene's operator.
func (s *scene) uncalled() {
	s.T.Helper()
	require.Empty(s.T, s.configurations(s.T))
	mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	require.NoError(s.T, cluster.Client.List(s.T.Context(), mutating, client.MatchingLabels{names.LabelOwnerNamespace: s.Namespace}))
	require.Empty(s.T, mutating.Items)
	apis := &apiregistrationv1.APIServiceList{}
	require.NoError(s.T, cluster.Client.List(s.T.Context(), apis, client.MatchingLabels{names.LabelOwnerNamespace: s.Namespace}))
	require.Empty(s.T, apis.Items)
	require.Empty(s.T, s.delegators(s.T))
}

// delegators returns the bindings that let the scene's APIs authenticate callers.
func (s *scene) delegators(t assert.TestingT) []rbacv1.ClusterRoleBinding {
	list := &rbacv1.ClusterRoleBindingList{}
	assert.NoError(t, cluster.Client.List(s.T.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: s.Namespace}))
	return slices.DeleteFunc(list.Items, func(b rbacv1.ClusterRoleBinding) bool { return b.RoleRef.Name != "system:auth-delegator" })
}

// bindingOf creates a ClusterRoleBinding to system:auth-delegator for the neighbor's default ServiceAccount.
func (s *scene) bindingOf(name string) *rbacv1.ClusterRoleBinding {
	s.T.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: neighbor, Name: "default"}}}
	s.createOutside(binding)
	return binding
}

// apiOf returns an APIService whose Service is in the neighbor's namespace.
func apiOf(group string, labels map[string]string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group, Labels: labels}, Spec: apiregistrationv1.APIServiceSpec{
		Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: neighbor, Name: "theirs"},
	}}
}

// label sets labels on a namespace, with the permissions of the cluster administrator. An empty value removes the
// label.
func (s *scene) label(namespace string, labels map[string]string) {
	s.T.Helper()
	obj := &corev1.Namespace{}
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: namespace}, obj))
	before := obj.DeepCopy()
	for key, value := range labels {
		obj.Labels[key] = value
		if value == "" {
			delete(obj.Labels, key)
		}
	}
	require.NoError(s.T, cluster.Client.Patch(s.T.Context(), obj, client.MergeFrom(before)))
}
