package injection

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step/build"
)

// operator is a bundle without anything hostile: a ClusterServiceVersion, a CustomResourceDefinition, a role and a binding.
const operator = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.v1.0.0, annotations: {capabilities: Full}}
spec:
  version: 1.0.0
  installModes: [{type: OwnNamespace, supported: true}, {type: AllNamespaces, supported: true}]
  customresourcedefinitions: {owned: [{name: ops.example.com, version: v1, kind: Op}]}
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, generateName: v.op.example.com, deploymentName: op, admissionReviewVersions: [v1], sideEffects: None, webhookPath: /v,
     rules: [{apiGroups: [example.com], apiVersions: [v1], resources: [ops], operations: [CREATE]}]}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: op
        label: {team: blue}
        spec:
          selector: {matchLabels: {app: op}}
          template:
            metadata: {labels: {app: op}, annotations: {own: "1"}}
            spec: {serviceAccountName: op, containers: [{name: manager, image: "op:1"}]}
      permissions: [{serviceAccountName: op, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}]
      clusterPermissions: [{serviceAccountName: op, rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Op, plural: ops, singular: op, listKind: OpList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: extra}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [a], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: extra}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extra}
subjects: [{kind: ServiceAccount, name: op}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
data: {a: b}
`

// manifests returns the objects of the operator as JSON.
func manifests(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	for _, text := range strings.Split(operator, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		out = append(out, raw)
	}
	return out
}

// place is a place in one of the operator's manifests.
type place struct {
	Place
	name string
	// with returns the operator's manifests with a text in the place.
	with func(text string) [][]byte
}

func placesIn[T any](t *testing.T, manifest int) (out []place) {
	t.Helper()
	all := manifests(t)
	var like T
	require.NoError(t, json.Unmarshal(all[manifest], &like))
	for _, p := range Places[T]() {
		out = append(out, place{p, strings.TrimPrefix(p.Path, "."), func(text string) [][]byte {
			var object T
			require.NoError(t, json.Unmarshal(all[manifest], &object))
			p.Set(&object, text)
			raw, err := json.Marshal(object)
			if err != nil {
				return nil // the text does not have the syntax of the field
			}
			changed := append([][]byte(nil), all...)
			changed[manifest] = raw
			return changed
		}})
	}
	return out
}

// Every place of every manifest: either the bundle is refused, or what Remit writes about it is what it means. The number of places is
// known, so that none is lost when a type changes.
func TestBundles(t *testing.T) {
	t.Parallel()
	for kind, row := range map[string]struct {
		places []place
		least  int
	}{
		"ClusterServiceVersion":    {placesIn[operatorsv1alpha1.ClusterServiceVersion](t, 0), 700},
		"CustomResourceDefinition": {placesIn[apiextensionsv1.CustomResourceDefinition](t, 1), 80},
		"Role":                     {placesIn[rbacv1.Role](t, 2), 20},
		"RoleBinding":              {placesIn[rbacv1.RoleBinding](t, 3), 20},
		"ConfigMap":                {placesIn[corev1.ConfigMap](t, 4), 20},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			require.GreaterOrEqual(t, len(row.places), row.least)
			for i, p := range row.places {
				for _, text := range Some(i) {
					for output, written := range outputsOf(p.with(text)) {
						assert.NoError(t, CheckText(written), "%s: %q in %s", output, text, p.name)
					}
				}
			}
		})
	}
}

func TestTheOperatorItselfIsAccepted(t *testing.T) {
	outputs := outputsOf(manifests(t))
	require.NotContains(t, outputs, "refusal")
	require.NotContains(t, outputs, "refusal of a rendered bundle")
	require.NotContains(t, outputs, "refusal of a plan")
	require.Contains(t, outputs["summary"], "cannot")
}

// outputsOf returns all texts that Remit writes about a bundle without a cluster, by name.
func outputsOf(manifests [][]byte) map[string]string {
	out := map[string]string{}
	if manifests == nil {
		return out
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if json.Unmarshal(manifests[0], csv) == nil { // as a user creates it
		if err := bundle.ValidateCSV(csv); err != nil {
			out["refusal of a ClusterServiceVersion"] = err.Error()
		} else {
			out["omitted from Deployments"] = strings.Join(deployment.LeftOut(csv, nil), "\n")
		}
	}
	b, err := bundle.ParseContent(context.Background(), &catalog.Content{Manifests: manifests})
	if err != nil {
		out["refusal"] = err.Error()
		return out
	}
	out["warnings"] = strings.Join(b.Warnings, "\n")
	addRendered(out, b)
	addReport(out, b)
	return out
}

func addRendered(out map[string]string, b *bundle.Bundle) {
	rendered, err := render.Render(render.Input{Bundle: b, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Extension: "ext", Package: "op", Namespace: "ops"}}})
	if err != nil {
		out["refusal of a rendered bundle"] = err.Error()
		return
	}
	var lines []string
	for _, o := range rendered.Objects {
		if len(o.Dropped) > 0 {
			lines = append(lines, bundle.LeftOut(o.GetKind()+" "+o.GetName(), o.Dropped))
		}
	}
	out["omitted from objects"] = strings.Join(append(lines, rendered.Warnings...), "\n")
}

func addReport(out map[string]string, b *bundle.Bundle) {
	scope := build.Scope{Namespace: "ops", Package: "op", Group: "group", Targets: []string{"ops"}}
	report, err := preflight.Required(scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "ops", Name: "installer"}), b, scope)
	if err != nil {
		out["refusal of a plan"] = err.Error()
		return
	}
	report.Later = report.Findings
	for name, text := range map[string]message.Text{
		"summary": report.Summary(), "refusals": report.Refusals(), "refused": report.RefusedText(), "undecided": report.Undecided(),
		"later": report.LaterText(), "grant": report.Grant(), "notes": message.Line(strings.Join(report.Notes, "\n")), "escalation": report.Escalation(),
	} {
		out[name] = string(text)
	}
}
