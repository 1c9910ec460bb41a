package escape

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// writesAnything returns profile P1 with permission to read and write the objects that administrators usually write.
// Remit refuses a webhook under this profile only if no account is allowed to create it.
func writesAnything() profile {
	verbs := []string{"get", "create", "update", "patch", "delete"}
	return calling(p1(),
		rule(rbacv1.GroupName, "clusterroles clusterrolebindings", verbs...),
		rule("certificates.k8s.io", "certificatesigningrequests certificatesigningrequests/approval", verbs...),
		rule("apiextensions.k8s.io", "customresourcedefinitions", verbs...),
		rule("", "namespaces nodes persistentvolumes", verbs...),
		rule("operators.coreos.com", "*", verbs...), rule("x.operators.coreos.com", "*", verbs...))
}

// intercepts returns a webhook with failurePolicy Ignore, so that a webhook that a failed row leaves behind does not
// affect later rows.
func intercepts(kind, rules string) any {
	return hook(kind, rules, "failurePolicy: Ignore", "timeoutSeconds: 1")
}

// interception returns rows about webhooks that intercept other users' requests (ADR 0021).
func interception() []row {
	hook := intercepts
	never := func(number, title string, d any, words ...string) row {
		return row{number: number, title: title, holds: writesAnything(), play: func(s *scene) {
			s.install(bundleOf(hooked(csv(), d)))
			s.planSays(append(words, "probe.escape.test")...)
			s.nothingWritten()
			s.uncalled()
		}}
	}
	rows := []row{
		never("140", "a mutating webhook on RoleBindings", hook("Mutating", intercepting(rbacv1.GroupName, "rolebindings", "CREATE")),
			`may not intercept "rolebindings"`),
		never("140a", "a mutating webhook on ClusterRoleBindings", hook("Mutating", intercepting(rbacv1.GroupName, "clusterrolebindings", "CREATE, UPDATE")),
			`may not intercept "clusterrolebindings"`),
		never("140b", "a mutating webhook on Roles", hook("Mutating", intercepting(rbacv1.GroupName, "roles", "UPDATE")), `may not intercept "roles"`),
		never("140c", "a mutating webhook on requests for tokens", hook("Mutating", intercepting("", "serviceaccounts/token", "CREATE")),
			`may not intercept "serviceaccounts/token"`),
		never("140d", "a mutating webhook on requests for certificates", hook("Mutating", intercepting("certificates.k8s.io", "certificatesigningrequests", "CREATE")),
			`may not intercept "certificatesigningrequests"`),
		never("140e", "a webhook that prevents the removal of bindings", hook("Validating", intercepting(rbacv1.GroupName, "rolebindings", "DELETE")),
			`may not intercept "rolebindings"`),
		never("140f", "a mutating webhook on all subresources of ServiceAccounts", hook("Mutating", intercepting("", "serviceaccounts/*", "CREATE")),
			`may not intercept "serviceaccounts/token"`),
		never("140g", "a mutating webhook on all subresources of all resources", hook("Mutating", intercepting("", `"*/*"`, `"*"`)), "may not intercept"),
		never("140h", "a webhook on connections to Pods", hook("Validating", intercepting("", "pods/*", "CONNECT")), `may not intercept "pods/exec"`),
		never("140i", "a mutating webhook on ephemeral containers", hook("Mutating", intercepting("", "pods/ephemeralcontainers", "UPDATE")),
			`may not intercept "pods/ephemeralcontainers"`),
		never("140j", "a mutating webhook on CustomResourceDefinitions", hook("Mutating", intercepting("apiextensions.k8s.io", "customresourcedefinitions", "UPDATE")),
			`may not intercept "customresourcedefinitions"`),
		never("140k", "a webhook on APIServices", hook("Validating", intercepting("apiregistration.k8s.io", `"*"`, "UPDATE")), `may not intercept "*"`),
		never("140l", "a webhook on a group below Remit's API", hook("Validating", intercepting("x.operators.coreos.com", "things", "CREATE")),
			`may not intercept "things"`),
		never("140m", "a mutating webhook on the labels of Namespaces", hook("Mutating", intercepting("", "namespaces", "UPDATE")), `may not intercept "namespaces"`),
		never("140n", "a mutating webhook on Nodes", hook("Mutating", intercepting("", "nodes/status", "UPDATE")), `may not intercept "nodes/status"`),
		{number: "140-direct", title: "a mutating webhook on RoleBindings, in a tenant's own CSV", holds: writesAnything(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), hook("Mutating", intercepting(rbacv1.GroupName, "rolebindings", "CREATE"))).Object))
			s.csvSays(failed, `may not intercept "rolebindings"`)
			s.noDeployments()
			s.uncalled()
		}},
	}
	return slices.Concat(rows, reading(), conferring(), claims(), converted())
}

// reading returns rows about webhooks that receive objects that the account is not allowed to read.
func reading() []row {
	hook := intercepts
	unread := func(number, title string, holds profile, d any, words ...string) row {
		return row{number: number, title: title, holds: holds, play: func(s *scene) {
			s.install(bundleOf(hooked(csv(), d)))
			s.isMissing(words...)
			s.uncalled()
		}}
	}
	blind := calling(p0())
	for i := range blind.own { // remove permission to read Secrets, except the operator's certificate
		if slices.Contains(blind.own[i].Resources, "secrets") {
			blind.own[i].Resources = slices.DeleteFunc(blind.own[i].Resources, func(r string) bool { return r == "secrets" })
		}
	}
	certificate := rule("", "secrets", "get")
	certificate.ResourceNames = []string{forge.Deployment + "-service-cert"}
	blind.own = append(blind.own, rule("", "secrets", "create", "update", "patch", "delete"), certificate)
	return []row{
		{number: "194", title: "a webhook on Secrets that the account may not access, in a rule that is too large to evaluate", holds: sightless(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), padded()).Object))
			s.csvSays(failed, "combinations")
			s.uncalled()
		}},
		{number: "194a", title: "a webhook on Secrets in all namespaces, in a rule that is too large to evaluate", holds: forAll(sightless()), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.group()
			require.NoError(s.T, s.apply(s.mallory(), hooked(onlyAllNamespaces(csv()), padded()).Object))
			s.csvSays(failed, "combinations")
			s.removeCSV()
			s.uncalled()
		}},
		unread("141", "a webhook on Secrets that the account may write but not read", blind, hook("Validating", intercepting("", "secrets", "CREATE")),
			`cannot get resource "secrets"`),
		{number: "141-direct", title: "a webhook on Secrets that the account may write but not read, in a tenant's own CSV", holds: blind, play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), hook("Validating", intercepting("", "secrets", "DELETE"))).Object))
			s.csvSays(failed, `["get"]`, "secrets")
			s.noDeployments()
			s.uncalled()
		}},
		unread("141a", "a webhook on objects derived from Endpoints, which the account may not read",
			calling(profile{own: append(p0().own, rule("", "endpoints", "update", "patch", "delete"))}),
			hook("Validating", intercepting("", "endpoints", "UPDATE, DELETE")), `cannot get resource "endpoints"`),
		unread("141b", "a webhook on the status of objects that the account may not read",
			calling(profile{own: append(p0().own, rule("", "endpoints/status", "get", "update", "patch"))}),
			hook("Validating", intercepting("", "endpoints/status", "UPDATE")), `cannot get resource "endpoints"`),
	}
}

// sightless returns profile P0 with permission to create webhooks but without permissions on Secrets, except the
// operator's certificate.
func sightless() profile {
	p := calling(p0())
	for i := range p.own {
		p.own[i].Resources = slices.DeleteFunc(p.own[i].Resources, func(r string) bool { return r == "secrets" })
	}
	certificate := rule("", "secrets", "get", "create", "patch", "delete")
	certificate.ResourceNames = []string{forge.Deployment + "-service-cert"}
	p.own = append(p.own, certificate)
	return p
}

// padded returns a webhook on Secrets whose rule expands to more combinations than Remit evaluates (rbac.MaxAtoms).
func padded() any {
	groups, resources := []string{`""`}, []string{"secrets"}
	for i := range 100 {
		groups, resources = append(groups, fmt.Sprintf("g%d", i)), append(resources, fmt.Sprintf("r%d", i))
	}
	return intercepts("Validating", fmt.Sprintf(`{apiGroups: [%s], apiVersions: ["*"], resources: [%s], operations: ["*"], scope: Namespaced}`,
		strings.Join(groups, ", "), strings.Join(resources, ", ")))
}

// conferring returns rows about mutating webhooks that could change the ServiceAccount that a workload runs as.
func conferring() []row {
	hook := intercepts
	runs := func(number, title string, d any) row {
		return row{number: number, title: title, holds: calling(p1()), boss: true, play: func(s *scene) {
			s.install(bundleOf(hooked(csv(), d)))
			s.isMissing("is missing permissions outside of namespace " + s.Namespace + " that ServiceAccount " + s.Namespace + "/" + bossName + " has")
			require.Contains(s.T, s.report().Data["report.yaml"], "ServiceAccount "+s.Namespace+"/"+bossName)
			s.uncalled()
		}}
	}
	return []row{
		runs("142", "a mutating webhook on Pods in a namespace with a stronger ServiceAccount", hook("Mutating", intercepting("", "pods", "CREATE"))),
		runs("142a", "a mutating webhook on Deployments in a namespace with a stronger ServiceAccount", hook("Mutating", intercepting("apps", "deployments", "UPDATE"))),
		runs("142b", "a mutating webhook on all resources of batch in a namespace with a stronger ServiceAccount", hook("Mutating", intercepting("batch", `"*"`, `"*"`))),
		runs("142c", "a mutating webhook on Secrets, which can turn a Secret into a token of a stronger ServiceAccount", hook("Mutating", intercepting("", "secrets", "CREATE"))),
		{number: "142-direct", title: "a mutating webhook on Pods, in a tenant's own CSV", holds: calling(p1()), boss: true, play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), hooked(csv(), hook("Mutating", intercepting("", "pods", "CREATE"))).Object))
			s.csvSays(failed, "permissions outside of namespace "+s.Namespace+" that ServiceAccount "+s.Namespace+"/"+bossName+" has")
			s.noDeployments()
			s.uncalled()
		}},
		{number: "142d", title: "a mutating webhook on Pods in all namespaces", holds: forAll(calling(p1(), rule("", "pods", "get", "create"))), play: func(s *scene) {
			s.group()
			s.publish(bundleOf(hooked(onlyAllNamespaces(csv()), hook("Mutating", intercepting("", "pods", "CREATE")))))
			s.subscribe()
			s.isMissing(`cannot create resource "serviceaccounts/token" in API group "" at the cluster scope`)
			s.uncalled()
		}},
		{number: "142e", title: "a stronger ServiceAccount that is created after a mutating webhook on Pods is reported", holds: calling(p1()), play: func(s *scene) {
			s.allow(s.isForHooks)
			s.install(bundleOf(hooked(csv(), hook("Mutating", intercepting("", "pods", "CREATE")))))
			s.Complete()
			s.csvSays(succeeded)
			s.told.Stronger = []string{bossName}
			s.account(bossName, profile{cluster: []rbacv1.PolicyRule{rule("", "nodes", "get")}})
			s.Eventually(func(c *assert.CollectT) {
				assert.Contains(c, s.CSV(c, probeCSV).Status.Message, "that ServiceAccount "+s.Namespace+"/"+bossName+" has")
			})
			require.NotContains(s.T, statusText(s.T, s.CSV(s.T, probeCSV).Status), "nodes")
			s.removeCSV()
			s.uncalled()
		}},
		{number: "142h", title: "a binding in another namespace does not stop a mutating webhook", holds: calling(p1()), play: func(s *scene) {
			s.allow(s.isForHooks)
			const deployer = "deployer"
			s.Create(&corev1.ServiceAccount{ObjectMeta: s.Meta(deployer)})
			s.gives(s.other("theirs"), deployer)
			s.install(bundleOf(hooked(csv(), hook("Mutating", intercepting("", "pods", "CREATE")))))
			s.Complete()
			s.csvSays(succeeded)
			s.removeCSV()
			s.uncalled()
		}},
		{number: "142g", title: "permissions of a ServiceAccount in the whole cluster are not disclosed", holds: calling(p1()), play: func(s *scene) {
			const deployer = "deployer"
			s.told.Stronger = []string{deployer}
			s.Create(&corev1.ServiceAccount{ObjectMeta: s.Meta(deployer)})
			theirs := s.other("theirs")
			crown := rule("", "secrets", "get")
			crown.ResourceNames = []string{"hidden-crown"}
			meta := metav1.ObjectMeta{Name: theirs.Namespace + "-crown"}
			s.createOutside(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{crown}})
			s.createOutside(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: deployer}}})
			s.install(bundleOf(hooked(csv(), hook("Mutating", intercepting("", "pods", "CREATE")))))
			message := s.isMissing("permissions outside of namespace " + s.Namespace + " that ServiceAccount " + s.Namespace + "/" + deployer + " has")
			all := message + statusText(s.T, s.Plan(s.T)) + statusText(s.T, s.report().Data)
			require.NotContains(s.T, all, "hidden-crown")
			require.NotContains(s.T, all, theirs.Namespace)
			s.uncalled()
		}},
		{number: "142f", title: "a validating webhook on Pods, which cannot change them, is allowed", holds: calling(p1()), boss: true, play: func(s *scene) {
			s.allow(s.isForHooks)
			s.install(bundleOf(hooked(csv(), hook("Validating", intercepting("", "pods", "CREATE")))))
			s.Complete()
			require.Equal(s.T, succeeded, s.csvSays(succeeded).Status.Phase)
			s.removeCSV()
			s.uncalled()
		}},
	}
}

// claims returns rows about APIServices in groups that are already served (ADR 0022).
func claims() []row {
	return []row{
		invalid("143", "an API with a new version in a Kubernetes API group", owningAPI(csv(), "apps", "v9"), `API group "apps" is reserved`),
		invalid("143a", "an API in a group below Remit's API", owningAPI(csv(), "x.operators.coreos.com", "v1"), "is reserved"),
		uncallable("143b", "an API with a new version in the group of another owner's CRD", owningAPI(csv(), "acme.io", "v9"),
			"pre-existing APIService v9.acme.io is not adoptable", `CustomResourceDefinition "widgets.acme.io"`),
		{number: "143c", title: "an API with a new version in the group of another owner's API", holds: serving(p1()), play: func(s *scene) {
			s.createOutside(apiOf("claimed.escape.test", nil))
			s.install(bundleOf(owningAPI(csv(), "claimed.escape.test", "v9")))
			s.csvSays(failed, "pre-existing APIService v9.claimed.escape.test is not adoptable", `APIService "v1.claimed.escape.test"`)
			s.uncalled()
		}},
		{number: "192", title: "a CRD in the group of another owner's API", holds: p2(), play: func(s *scene) {
			const group = "claimed-192.escape.test"
			theirs := apiOf(group, nil)
			s.createOutside(theirs)
			s.allow(func(c oracle.Change) bool { return c.How == "created" && strings.HasSuffix(c.Name, "."+group) })
			s.install(bundleOf(owning("things."+group, "v2", "Thing"), crdOf(group, "things", "Thing", "", servedVersion("v2", true, anything))))
			s.planSays("CustomResourceDefinition things."+group, `which APIService "v1.`+group+`" serves`)
			s.nothingWritten()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), theirs))
			s.Complete()
		}},
	}
}

// converted returns rows about CustomResourceDefinitions whose conversion webhook does not belong to the install.
func converted() []row {
	brings := func(number, title, more string) row {
		group := "converted-" + number + ".escape.example.com"
		return row{number: number, title: title, holds: p2(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.How == "created" && (c.Name == "gadgets."+group || c.Name == "v1."+group || c.Name == "v2."+group)
			})
			s.install(bundleOf(owning("gadgets."+group, "v1", "Gadget"), crdOf(group, "gadgets", "Gadget", more,
				servedVersion("v1", true, anything), servedVersion("v2", false, anything))))
			s.Complete()
			s.csvSays(succeeded)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "gadgets." + group}, crd))
			require.Equal(s.T, apiextensionsv1.NoneConverter, crd.Spec.Conversion.Strategy)
			gadget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget"}}
			gadget.SetNamespace(s.Namespace)
			gadget.SetName("one")
			s.Create(gadget)
			gadget.SetAPIVersion(group + "/v2")
			require.NoError(s.T, s.Get("one", gadget), "no webhook must be called, and the namespace must be deletable")
		}}
	}
	below := func(number, group string) row {
		return row{number: number, title: "a CRD in the group " + group, holds: p2(), play: func(s *scene) {
			s.install(bundleOf(csv(), crdOf(group, "gadgets", "Gadget", "", servedVersion("v1", true, anything))))
			s.planSays("protected API group")
			s.nothingWritten()
		}}
	}
	return []row{
		brings("144", "a CRD with conversion at an arbitrary address", `, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1],
 clientConfig: {url: "https://127.0.0.1:1/convert"}}}`),
		brings("144a", "a CRD that is converted by a Service in another namespace", `, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1],
 clientConfig: {service: {namespace: t2, name: theirs, path: /convert}}}}`),
		below("144b", "x.operators.coreos.com"), below("144c", "x.olm.operatorframework.io"), below("144d", "remit.dev"),
	}
}
