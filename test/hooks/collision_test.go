package hooks

import (
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
)

// written returns everything that an install of the sample writes, except its ClusterServiceVersion.
func written(tn *env.Tenant) []*unstructured.Unstructured {
	tn.T.Helper()
	b, err := env.ReadBundle(bundlev2.FS())
	require.NoError(tn.T, err)
	resource, err := build.NewStepResourceFromBundle(b, build.Scope{Namespace: tn.Namespace, Package: bundle.Package, Targets: []string{rbac.ClusterScope}}, build.Unchecked{})
	require.NoError(tn.T, err)
	var out []*unstructured.Unstructured
	for _, st := range resource.Steps {
		if !st.IsCSV() {
			out = append(out, st.Object)
			continue
		}
		supporting, err := preflight.Supporting(st, nil)
		require.NoError(tn.T, err)
		for _, more := range supporting {
			out = append(out, more.Object)
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		require.NoError(tn.T, apply.Decode(st.Object, csv))
		for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
			obj, err := apply.Object(&appsv1.Deployment{ObjectMeta: tn.Meta(d.Name), Spec: d.Spec})
			require.NoError(tn.T, err)
			obj.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
			out = append(out, obj)
		}
	}
	return out
}

// All objects of the install exist already, and belong to someone else. Each one is reported, and nothing is written: neither by
// the plan nor by the controller that would install the ClusterServiceVersion.
func TestAllCollisionsAreKnownBeforeTheFirstWrite(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	tn := c.Tenant(t)
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	kinds := map[string]bool{}
	objs := written(tn)
	for _, obj := range objs {
		theirs := obj.DeepCopy()
		theirs.SetLabels(nil)
		theirs.SetAnnotations(nil)
		theirs.SetOwnerReferences(nil)
		tn.Create(theirs)
		kinds[obj.GetKind()] = true
	}
	require.Equal(t, map[string]bool{
		"CustomResourceDefinition": true, "ConfigMap": true, "Service": true, "Secret": true, "ServiceAccount": true, "Deployment": true, "ClusterRole": true,
		"ClusterRoleBinding": true, "Role": true, "RoleBinding": true, "ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true, "APIService": true,
	}, kinds)
	tn.Catalog("catalog", image(catalogBoth))
	tn.Group(env.AccountName)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	tn.ObjectsRefused()
	report := tn.Report().Data[preflight.FileReport]
	for _, obj := range objs {
		assert.Contains(t, report, "object: "+apply.Describe(obj)+"\n")
	}
	require.Empty(t, slices.DeleteFunc(tn.Writes(), func(e audit.Event) bool { return e.DescribesGroup() || isGroupRole(e) }))
}

// isGroupRole reports whether the request writes a ClusterRole of the OperatorGroup, which this account may write. The operatorgroup
// controller publishes them whether or not an operator is installed.
func isGroupRole(e audit.Event) bool {
	return e.Object != nil && e.Object.Resource == "clusterroles" && strings.HasPrefix(e.Object.Name, "olm.og.")
}
