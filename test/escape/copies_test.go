package escape

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// labelDenied asserts that one of the two policies that protect the label of copies denied a request.
func (s *scene) labelDenied(err error) {
	s.T.Helper()
	require.True(s.T, apierrors.IsForbidden(err), "%v", err)
	require.Regexp(s.T, "remit-(copies|csv-author-check)", err.Error())
}

// copies tries to abuse the permission to write copies of ClusterServiceVersions (docs/adr/0053). The namespace has no
// OperatorGroup.
func (x *theft) copies() {
	x.T.Helper()
	version := func(name, from string) *operatorsv1alpha1.ClusterServiceVersion {
		out := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: x.Meta(name)}
		out.Spec.InstallStrategy.StrategyName = "deployment"
		out.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
		if from != "" {
			out.Labels = map[string]string{names.LabelCopiedFrom: from}
		}
		return out
	}
	require.NoError(x.T, x.identity.Create(x.T.Context(), version("x.v1", neighbor)), "the copies that Remit writes must be admitted")
	x.createRefused("a ClusterServiceVersion that is installed", version("x.v1", ""))
	x.createRefused("a copy from its own namespace", version("x.v1", x.Namespace))
	final := version("x.v1", neighbor)
	final.Finalizers = []string{names.FinalizerCSV}
	x.createRefused("a copy with a finalizer", final)

	copied, live := version("copied.v1", neighbor), version("live.v1", x.Namespace)
	x.Create(copied)
	x.Create(live) // the label of its own namespace does not make it a copy
	require.NoError(x.T, x.identity.Patch(x.T.Context(), copied.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"displayName":"x"}}`))))
	require.NoError(x.T, x.identity.Delete(x.T.Context(), copied.DeepCopy()))
	for what, patch := range map[string]string{
		"the label":           `{"metadata":{"labels":null}}`,
		"the label's value":   `{"metadata":{"labels":{"olm.copiedFrom":"elsewhere"}}}`,
		"a finalizer":         `{"metadata":{"finalizers":["` + names.FinalizerCSV + `"]}}`,
		"an owner":            `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"u"}]}}`,
		"its own namespace's": `{"metadata":{"labels":{"olm.copiedFrom":"` + x.Namespace + `"}}}`,
	} {
		x.patchRefused(what+" of a copy", copied.DeepCopy(), patch)
	}
	x.patchRefused("the spec of another ClusterServiceVersion", live.DeepCopy(), `{"spec":{"displayName":"x"}}`)
	x.patchRefused("the label of another ClusterServiceVersion", live.DeepCopy(), `{"metadata":{"labels":{"olm.copiedFrom":"elsewhere"}}}`)
	x.refused("deleting another ClusterServiceVersion", x.identity.Delete(x.T.Context(), live.DeepCopy()))
}
