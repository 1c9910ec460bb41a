package escape

import (
	"encoding/json"
	"fmt"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// crdOf returns a CustomResourceDefinition in YAML. more is YAML to add to the spec, and each of the versions is YAML
// for spec.versions.
func crdOf(group, plural, kind, more string, versions ...string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]s.%[1]s},
spec: {group: %[1]s, scope: Namespaced, names: {plural: %[2]s, singular: %[4]s, kind: %[3]s, listKind: %[3]sList}, versions: [%[5]s]%[6]s}}`,
		group, plural, kind, strings.ToLower(kind), strings.Join(versions, ", "), more)
}

func servedVersion(name string, storage bool, schema string) string {
	return fmt.Sprintf(`{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: %s}}`, name, storage, schema)
}

const (
	anything = `{type: object, x-kubernetes-preserve-unknown-fields: true}`
	fishing  = `{type: object, properties: {spec: {type: object, properties: {value: {type: string, pattern: "^nothing$"}}}}}`
)

func widgets(more string, versions ...string) string {
	return crdOf("acme.io", "widgets", "Widget", more, versions...)
}

// owning returns a CSV that owns a CustomResourceDefinition.
func owning(name, version, kind string) forge.CSV {
	return csv().Set([]any{map[string]any{"name": name, "version": version, "kind": kind}}, "spec", "customresourcedefinitions", "owned")
}

const conversion = `, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1],
 clientConfig: {service: {namespace: t1, name: evil, path: /convert, port: 443}}}}`

func crds() []row {
	v1 := servedVersion("v1", true, anything)
	own := func(group string) func() forge.CSV {
		return func() forge.CSV { return owning("gadgets."+group, "v1", "Gadget") }
	}
	present := func(number, title string, holds profile, manifest string) row {
		return row{number: number, title: title, holds: holds, play: func(s *scene) {
			s.install(bundleOf(owning("widgets.acme.io", "v1", "Widget"), manifest))
			ip := s.Complete()
			for _, step := range ip.Status.Plan {
				if step.Resource.Kind == "CustomResourceDefinition" {
					require.Equal(s.T, operatorsv1alpha1.StepStatusPresent, step.Status)
				}
			}
			s.noCRDWrites()
		}}
	}
	approved := func(group string) string {
		return strings.Replace(crdOf(group, "gadgets", "Gadget", "", v1), "metadata: {", `metadata: {annotations: {api-approved.kubernetes.io: "unapproved, for escape"}, `, 1)
	}
	refusedAs := func(number, title, manifest string, words ...string) row {
		return row{number: number, title: title, holds: p2(), play: func(s *scene) {
			s.install(bundleOf(csv(), manifest))
			s.planSays(words...)
			s.nothingWritten()
		}}
	}
	return []row{
		manifests("22", "a new CRD under P0", p0(), []string{crdOf("escape.example.com", "gadgets", "Gadget", "", v1)},
			"cannot create resource", "customresourcedefinitions"),
		{number: "22a", title: "a new CRD under P2 is created, and nothing else", holds: p2(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.How == "created" && (c.Name == "gadgets.made.escape.example.com" || c.Name == "v1.made.escape.example.com")
			})
			s.install(bundleOf(own("made.escape.example.com")(), crdOf("made.escape.example.com", "gadgets", "Gadget", "", v1)))
			s.Complete()
			s.Succeeded(probeCSV)
		}},
		present("23", "an identical CRD that already exists", p0(), widgets("", v1)),
		// The suite's specification requires a refusal, but the step for a CRD that already serves what the bundle needs is
		// Present. Nothing is written either way.
		present("25", "a CRD of another owner, with a conversion to a Service in t1", p2(), widgets(conversion, v1)),
		present("26", "a restrictive schema for a CRD of another owner", p2(), widgets("", servedVersion("v1", true, fishing))),
		refusedAs("25a", "a CRD of another owner, with an additional version and a conversion",
			widgets(conversion, v1, servedVersion("v2", false, anything)), "CustomResourceDefinition widgets.acme.io already exists and was not created by this install"),
		refusedAs("26a", "a CRD of another owner, with an additional version and a restrictive schema",
			widgets("", servedVersion("v1", false, fishing), servedVersion("v2", true, fishing)), collides),
		refusedAs("26b", "a CRD of another owner, changed to cluster scope",
			strings.Replace(widgets("", v1), "scope: Namespaced", "scope: Cluster", 1), collides),
		{number: "26c", title: "a second version with a restrictive schema for its own CRD, to probe the objects of others", holds: lists("26c"), play: func(s *scene) {
			s.rejectsNeighborsWidget("26c")
			s.Eventually(func(c *assert.CollectT) {
				got := s.Subscription(c).Status.GetCondition(names.ConditionObjectsRefused)
				assert.Contains(c, got.Message, "1 object(s) would be invalid in version v1: 1 in namespaces that the OperatorGroup does not select")
			})
			s.disclosesNothing()
		}},
		{number: "26d", title: "a second version with a restrictive schema for its own CRD, with an account that may not list the objects", holds: p2(), play: func(s *scene) {
			s.rejectsNeighborsWidget("26d")
			s.Eventually(func(c *assert.CollectT) {
				got := s.Subscription(c).Status.GetCondition(names.ConditionPermissionsMissing)
				assert.Contains(c, got.Message, `cannot list resource "widgets" in API group "fished-26d.example.com" at the cluster scope`)
			})
			s.disclosesNothing()
			require.Empty(s.T, s.requests(func(e audit.Event) bool {
				return e.Verb == "list" && e.Object != nil && e.Object.APIGroup == "fished-26d.example.com" && e.User.Username == scoped.Username(s.Namespace, accountName)
			}))
		}},
		refusedAs("25b", "a CRD in the group of the OLM API", crdOf("operators.coreos.com", "gadgets", "Gadget", "", v1), "protected API group"),
		manifests("25c", "an approved CRD in a group below k8s.io with an account that may not write any", p0(), []string{approved("gadgets.k8s.io")},
			"cannot create resource", "customresourcedefinitions"),
		refusedAs("25e", "an unapproved CRD in a Kubernetes API group", crdOf("gizmos.k8s.io", "gadgets", "Gadget", "", v1), "protected API group"),
		refusedAs("25f", "an approved CRD in a group that the API server serves", approved("storage.k8s.io"), `which APIService "v1.storage.k8s.io" serves`),
		refusedAs("25d", "the OLM API's own CRD for Subscriptions", crdOf("operators.coreos.com", "subscriptions", "Subscription", "",
			servedVersion("v9", true, anything)), "protected API group"),
		{number: "28", title: "a conversion webhook for a CRD of another owner, created and removed", holds: p1(), play: func(s *scene) {
			s.install(bundleOf(converting(csv()), widgets("", v1)))
			s.planSays("a conversion webhook needs a CSV that supports only the install mode AllNamespaces")
			s.noCRDWrites()
		}},
		{number: "28a", title: "a conversion webhook for another owner's CRD, in a CSV that may declare conversion webhooks", holds: convertsAnything(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool { return c.Group == rbacv1.GroupName && c.Namespace == "" })
			s.group()
			s.publish(bundleOf(onlyAllNamespaces(converting(csv())), widgets("", v1)))
			s.subscribe()
			const occupied = "CustomResourceDefinition widgets.acme.io already exists and was not created by this install"
			s.planSays("nothing was written", occupied)
			require.NoError(s.T, s.apply(s.mallory(), onlyAllNamespaces(converting(csv())).Object)) // without a plan
			s.csvSays(pending, occupied)
			s.removeCSV()
			s.noCRDWrites()
		}},
		{number: "29", title: "a CRD of 2 MB", holds: p2(), directory: func() string {
			return forge.Catalog(bundleOf(csv(), crdOf("large.escape.example.com", "gadgets", "Gadget", "",
				servedVersion("v1", true, fmt.Sprintf(`{type: object, description: %q}`, strings.Repeat("x", 2<<20))))))
		}, play: refusedDirectory("bytes")},
		{number: "29a", title: "a CRD with a schema that is 1000 levels deep", holds: p2(), directory: func() string {
			schema := strings.Repeat(`{type: object, properties: {a: `, 500) + `{type: string}` + strings.Repeat(`}}`, 500)
			return forge.Catalog(bundleOf(csv(), crdOf("deep.escape.example.com", "gadgets", "Gadget", "", servedVersion("v1", true, schema))))
		}, play: refusedDirectory("deep")},
		{number: "29b", title: "a CRD with 200 versions", holds: p2(), directory: func() string {
			var versions []string
			for n := range 200 {
				versions = append(versions, servedVersion(fmt.Sprintf("v%d", n+1), n == 0, anything))
			}
			return forge.Catalog(bundleOf(csv(), crdOf("many.escape.example.com", "gadgets", "Gadget", "", versions...)))
		}, play: refusedDirectory("versions")},
	}
}

// lists returns profile P2 with permission to list the row's widgets.
func lists(number string) profile {
	p := p2()
	p.cluster = append(p.cluster, rule("fished-"+number+".example.com", "widgets", "list"))
	return p
}

// rejectsNeighborsWidget installs a bundle with a CRD for widgets in an API group that only this row uses, and creates
// a widget as the neighbor. Then it publishes a second version of the bundle, whose schema rejects the widget's value.
func (s *scene) rejectsNeighborsWidget(number string) {
	s.T.Helper()
	group := "fished-" + number + ".example.com"
	brings := func(c forge.CSV, schema string) *forge.Bundle {
		owned := []any{map[string]any{"name": "widgets." + group, "version": "v1", "kind": "Widget"}}
		return bundleOf(c.Set(owned, "spec", "customresourcedefinitions", "owned"), crdOf(group, "widgets", "Widget", "", servedVersion("v1", true, schema)))
	}
	s.allow(func(c oracle.Change) bool {
		return c.How == "created" && (c.Name == "widgets."+group || c.Name == "v1."+group)
	})
	s.install(brings(csv(), strings.Replace(fishing, `, pattern: "^nothing$"`, "", 1)))
	s.Succeeded(probeCSV)
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Widget", "spec": map[string]any{"value": secretValue}}}
	widget.SetNamespace(neighbor)
	widget.SetName(neighborsWidget)
	s.createOutside(widget)
	next := brings(nextVersion(), fishing)
	next.Version, next.Edges = "2.0.0", map[string]any{"replaces": probeCSV}
	s.republish(next)
}

// neighborsWidget is the name of the widget that rejectsNeighborsWidget creates as the neighbor.
const neighborsWidget = "neighbors-widget"

// disclosesNothing asserts that no object in the namespace mentions the neighbor's widget or the neighbor's namespace. The
// oracle checks that the widget's value does not leak.
func (s *scene) disclosesNothing() {
	s.T.Helper()
	s.settle()
	for _, list := range []client.ObjectList{
		&operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.InstallPlanList{}, &corev1.ConfigMapList{}, &corev1.EventList{},
	} {
		s.list(list)
		text, err := json.Marshal(list)
		require.NoError(s.T, err)
		require.NotContains(s.T, string(text), neighborsWidget)
		require.NotContains(s.T, string(text), neighbor+"/")
	}
	s.csvSays(succeeded)
}

// converting makes the CSV own the CustomResourceDefinition of another owner's widgets and adds a conversion webhook
// for it.
func converting(c forge.CSV) forge.CSV {
	return c.Set([]any{map[string]any{"name": "widgets.acme.io", "version": "v1", "kind": "Widget"}}, "spec", "customresourcedefinitions", "owned").
		Set([]any{map[string]any{
			"type": "ConversionWebhook", "generateName": "convert.acme.io", "deploymentName": forge.Deployment, "containerPort": int64(443),
			"admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "conversionCRDs": []any{"widgets.acme.io"}, "webhookPath": "/convert",
		}}, "spec", "webhookdefinitions")
}

// onlyAllNamespaces returns the CSV with AllNamespaces as its only install mode.
func onlyAllNamespaces(c forge.CSV) forge.CSV {
	return c.Set([]any{map[string]any{"type": "AllNamespaces", "supported": true}}, "spec", "installModes")
}

// convertsAnything returns profile P2 with all permissions that an operator for all namespaces needs, and permission to
// write CustomResourceDefinitions with any name.
func convertsAnything() profile {
	p := p2()
	p.cluster = append(p.cluster, rule("apiextensions.k8s.io", "customresourcedefinitions", "delete"), rule("", "configmaps namespaces", "get", "list", "watch"),
		rule(rbacv1.GroupName, "clusterroles clusterrolebindings", "create", "patch", "get", "delete"))
	return p
}

// uninstall deletes the Subscription, which would otherwise reinstall the CSV, and then the CSV.
func (s *scene) uninstall() {
	s.T.Helper()
	require.NoError(s.T, cluster.Client.DeleteAllOf(s.T.Context(), &operatorsv1alpha1.Subscription{}, client.InNamespace(s.Namespace)))
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.Meta(probeCSV)}))
}

// removeCSV uninstalls the operator and waits until its CSV is deleted.
func (s *scene) removeCSV() {
	s.T.Helper()
	s.uninstall()
	s.Eventually(func(c *assert.CollectT) {
		assert.True(c, apierrors.IsNotFound(s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{})))
	})
}

// refusedDirectory returns the play function of a row whose bundle is in a directory and is refused as a whole.
func refusedDirectory(words ...string) func(s *scene) {
	return func(s *scene) {
		s.installDirectory()
		s.refused(words...)
	}
}

// noCRDWrites asserts that no request to write a CustomResourceDefinition was sent as the account.
func (s *scene) noCRDWrites() {
	s.T.Helper()
	for _, e := range s.writes() {
		require.NotEqual(s.T, "customresourcedefinitions", e.Object.Resource, e.String())
	}
}
