package build_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// csvText requests access to Pods and, cluster-wide, to Nodes for a ServiceAccount "op".
const csvText = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: op.v1, namespace: placeholder}
spec:
  install:
    strategy: deployment
    spec:
      deployments: [{name: op}]
      permissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
`

const clusterPermissions = `
      clusterPermissions:
      - {serviceAccountName: op, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}
`

const crd = "kind: CustomResourceDefinition\nmetadata: {name: things.example.com}"

func scope(targets ...string) build.Scope {
	return build.Scope{
		Namespace: "own", Package: "op", Targets: targets,
		Account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "installer"}},
	}
}

func parse(t *testing.T, manifests ...string) *bundle.Bundle {
	t.Helper()
	var raw [][]byte
	for _, m := range manifests {
		raw = append(raw, []byte(m))
	}
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: raw})
	require.NoError(t, err)
	return b
}

func steps(t *testing.T, s build.Scope, manifests ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := build.NewStepResourceFromBundle(parse(t, manifests...), s, build.Unchecked{})
	require.NoError(t, err)
	var objects []*unstructured.Unstructured
	for _, st := range out.Steps {
		require.Equal(t, "op.v1", st.Owner.CSV)
		require.Equal(t, "own", st.Owner.Namespace)
		objects = append(objects, st.Object)
	}
	return objects
}

func TestStepsAreOrderedAndPlaced(t *testing.T) {
	objects := steps(t, scope("own", "other"),
		"kind: PodDisruptionBudget\nmetadata: {name: pdb}",
		"kind: ClusterRole\nmetadata: {name: cr, namespace: nonsense}",
		"kind: ConfigMap\nmetadata: {name: cm, namespace: own}",
		crd, csvText)
	var got []string
	for _, obj := range objects {
		got = append(got, obj.GetKind()+" "+obj.GetNamespace())
	}
	require.Equal(t, []string{
		"ClusterServiceVersion own", "CustomResourceDefinition ", "ServiceAccount own", "ConfigMap own",
		"Role other", "Role own", "ClusterRole ", "RoleBinding other", "RoleBinding own", "PodDisruptionBudget own",
	}, got)
}

// The control plane manages the rules of a ClusterRole that aggregates others.
func TestRulesOfAnAggregatingClusterRoleAreOmitted(t *testing.T) {
	objects := steps(t, scope("own"), csvText, `{kind: ClusterRole, metadata: {name: sum}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}],
  aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}`)
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == "sum" })
	require.NotContains(t, objects[i].Object, "rules")
	require.Contains(t, objects[i].Object, "aggregationRule")
}

func TestAManifestWithAnotherNamespaceIsRejected(t *testing.T) {
	b := parse(t, csvText, "kind: ConfigMap\nmetadata: {name: cm, namespace: kube-system}")
	_, err := build.NewStepResourceFromBundle(b, scope("own"), build.Unchecked{})
	require.EqualError(t, err, `ConfigMap "cm" has namespace "kube-system": objects of a bundle are created in the Subscription's namespace "own"`)
}

func TestABundleWithAnInvalidCSVIsRejected(t *testing.T) {
	b := parse(t, "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: op.v1}\nspec: {install: {strategy: deployment}}")
	_, err := build.NewStepResourceFromBundle(b, scope("own"), build.Unchecked{})
	require.EqualError(t, err, `ClusterServiceVersion "op.v1": the install strategy has no deployments`)
}

func TestABundleWithTooManyStepsIsRejected(t *testing.T) {
	manifests := []string{csvText}
	for i := range build.MaxSteps - 1 {
		manifests = append(manifests, fmt.Sprintf("kind: ConfigMap\nmetadata: {name: c%d}", i))
	}
	_, err := build.NewStepResourceFromBundle(parse(t, manifests...), scope("own"), build.Unchecked{})
	require.EqualError(t, err, `bundle "op.v1" has 1003 steps; at most 1000 are allowed`)
}

func TestTheFinalizerIsSetIfObjectsAreOutsideTheNamespace(t *testing.T) {
	for _, row := range []struct {
		name      string
		scope     build.Scope
		manifests []string
		want      bool
	}{
		{"own namespace only", scope("own"), []string{csvText}, false},
		{"another target", scope("other"), []string{csvText}, true},
		{"all namespaces", scope(rbac.ClusterScope), []string{csvText}, true},
		{"cluster permissions", scope("own"), []string{csvText + clusterPermissions}, true},
		{"a CRD is never deleted", scope("own"), []string{csvText, crd}, false},
		{"a ClusterRole of the bundle", scope("own"), []string{csvText, "kind: ClusterRole\nmetadata: {name: cr}"}, true},
		{"a webhook", scope("own"), []string{csvText + "  webhookdefinitions: [{type: ValidatingAdmissionWebhook}]\n"}, true},
		{"an API", scope("own"), []string{csvText + "  apiservicedefinitions: {owned: [{group: g.example.com, version: v1, kind: G}]}\n"}, true},
		{"a Role of the bundle", scope("own"), []string{csvText, "kind: Role\nmetadata: {name: r}"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var want []string
			if row.want {
				want = []string{names.FinalizerCSV}
			}
			require.Equal(t, want, steps(t, row.scope, row.manifests...)[0].GetFinalizers())
		})
	}
}

func TestTheBundlesServiceAccountReplacesTheRenderedOne(t *testing.T) {
	objects := steps(t, scope("own"), csvText, "kind: ServiceAccount\nmetadata: {name: op}\nimagePullSecrets: [{name: pull}]")
	require.Len(t, objects, 4)
	require.Equal(t, []any{map[string]any{"name": "pull"}}, objects[1].Object["imagePullSecrets"])
}

func TestOwnerLabels(t *testing.T) {
	objects := steps(t, scope("own"), csvText, crd+"\n", "kind: ConfigMap\nmetadata: {name: cm, labels: {mine: x}}")
	csv, definition, configMap := objects[0], objects[1], objects[3]

	require.Equal(t, "op.v1", configMap.GetLabels()[names.LabelOwner])
	require.Equal(t, "x", configMap.GetLabels()["mine"])
	require.Empty(t, configMap.GetAnnotations())
	for _, obj := range []*unstructured.Unstructured{csv, definition} {
		require.NotContains(t, obj.GetLabels(), names.LabelOwner, "a CustomResourceDefinition may belong to several CSVs")
		require.Equal(t, "true", obj.GetLabels()[names.LabelManaged])
		require.Contains(t, obj.GetLabels(), "operators.coreos.com/op.own")
		require.NotEmpty(t, obj.GetLabels()[names.LabelLineage])
	}
	require.Len(t, definition.GetAnnotations(), 1)
	for key, value := range definition.GetAnnotations() {
		require.Regexp(t, `^operatorframework\.io/installed-alongside-[a-z2-7]{16}$`, key)
		require.Equal(t, "own/op.v1", value)
	}
}

func TestBuildingStepsDoesNotModifyTheBundle(t *testing.T) {
	b := parse(t, csvText, crd)
	before := b.CSV.DeepCopy()
	crdBefore := b.Objects[0].DeepCopy()
	_, err := build.NewStepResourceFromBundle(b, scope("own", "other"), build.Unchecked{})
	require.NoError(t, err)
	require.Equal(t, before, b.CSV)
	require.Equal(t, crdBefore, b.Objects[0])
}

func TestExcessListsMissingRulesByScope(t *testing.T) {
	pods := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	nodes := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}
	s := scope("t1", "t2")
	checker := NewMockRuleChecker(gomock.NewController(t))
	checker.EXPECT().MissingRules(s.Account, "own", pods).Return(nil, nil)
	checker.EXPECT().MissingRules(s.Account, "t1", pods).Return(nil, nil)
	checker.EXPECT().MissingRules(s.Account, "t2", pods).Return(pods, nil)
	checker.EXPECT().MissingRules(s.Account, rbac.ClusterScope, nodes).Return(nodes, nil)

	out, err := build.NewStepResourceFromBundle(parse(t, csvText+clusterPermissions), s, checker)
	require.NoError(t, err)
	require.Equal(t, []build.Excess{
		{Namespace: "t2", ServiceAccount: "op", Missing: pods},
		{Namespace: rbac.ClusterScope, ServiceAccount: "op", Missing: nodes},
	}, out.Excess)
	require.NotEmpty(t, out.Steps, "the preflight reports missing permissions")
}

func TestAnErrorOfTheCheckerIsReturned(t *testing.T) {
	checker := NewMockRuleChecker(gomock.NewController(t))
	checker.EXPECT().MissingRules(gomock.Any(), gomock.Any(), gomock.Any()).Return(nil, errors.New("no cache"))
	_, err := build.NewStepResourceFromBundle(parse(t, csvText), scope("own"), checker)
	require.EqualError(t, err, "no cache")
}

func TestACSVHasItsBundlesProperties(t *testing.T) {
	properties := func(text, stated string) string {
		s := scope()
		s.Properties = stated
		steps, err := build.NewStepResourceFromBundle(parse(t, text), s, build.Unchecked{})
		require.NoError(t, err)
		return steps.Steps[0].Object.GetAnnotations()[names.AnnotationProperties]
	}
	const stated = `{"properties":[{"type":"olm.package","value":{"packageName":"op","version":"1.0.0"}}]}`
	require.Equal(t, stated, properties(csvText, stated))
	require.Empty(t, properties(csvText, ""))
	own := strings.Replace(csvText, "metadata: {", `metadata: {annotations: {operatorframework.io/properties: "own"}, `, 1)
	require.Equal(t, "own", properties(own, stated))
}

// Keys that a bundle is not allowed to set are removed from each of its objects and listed in the step; keys that Remit
// sets are kept.
func TestAStepListsDroppedLabelsAndAnnotations(t *testing.T) {
	const role = "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: r, labels: {rbac.authorization.k8s.io/aggregate-to-admin: \"true\", team: a}}"
	csv := strings.Replace(csvText, "metadata: {", `metadata: {annotations: {olm.anything: x, olm.skipRange: "<1.0.0"}, `, 1)
	out, err := build.NewStepResourceFromBundle(parse(t, csv, role), scope("own"), build.Unchecked{})
	require.NoError(t, err)
	dropped := map[string][]string{}
	for _, s := range out.Steps {
		require.NotEmpty(t, s.Object.GetLabels(), s.Object.GetName())
		if len(s.Dropped) > 0 {
			dropped[s.Object.GetKind()] = s.Dropped
		}
		for _, key := range s.Dropped {
			require.NotContains(t, s.Object.GetLabels(), key)
			require.NotContains(t, s.Object.GetAnnotations(), key)
		}
		if s.Object.GetName() == "r" {
			require.Equal(t, "a", s.Object.GetLabels()["team"])
		}
	}
	require.Equal(t, map[string][]string{
		"ClusterServiceVersion": {"olm.anything"}, "ClusterRole": {"rbac.authorization.k8s.io/aggregate-to-admin"},
	}, dropped)
}

func TestManifestsOfAClusterExtension(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "own", Extension: "my-op"}, CSV: "op.v1", UID: "u"}
	b := parse(t, csvText, crd, "kind: ConfigMap\nmetadata: {name: cm, namespace: kube-system, labels: {olm.operatorframework.io/owner-name: other, olm.x: z}}")
	got, err := build.Extension(b, owner, []string{"own"}, nil)
	require.NoError(t, err)
	var kinds []string
	for _, obj := range got.Objects {
		kinds = append(kinds, obj.GetKind()+" "+obj.GetNamespace())
		require.Equal(t, "my-op", obj.GetLabels()[names.LabelExtensionName])
		require.NotContains(t, obj.GetLabels(), names.LabelOwner)
		require.NotContains(t, obj.GetAnnotations(), build.AlongsideKey(owner))
		if obj.GetKind() == "ConfigMap" {
			require.Equal(t, []string{"olm.x"}, got.Dropped[obj])
		}
	}
	require.Equal(t, []string{"CustomResourceDefinition ", "ServiceAccount own", "ConfigMap own", "Role own", "RoleBinding own"}, kinds)
}
