package execute_test

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
)

// csv returns the UID of a ClusterServiceVersion, which it creates if it does not exist. The garbage collector deletes objects whose
// owner does not exist.
func (p *plan) csv(name string) types.UID {
	p.t.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: p.owner.Namespace, Name: name}}
	csv.Spec.DisplayName = name
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	c := crds.InstallCSVs(p.t, controlplane.Shared(p.t).Config())
	require.EventuallyWithT(p.t, func(t *assert.CollectT) { // the kind may not be discoverable yet
		err := c.Create(p.t.Context(), csv)
		if apierrors.IsAlreadyExists(err) {
			err = c.Get(p.t.Context(), client.ObjectKeyFromObject(csv), csv)
		}
		assert.NoError(t, err)
	}, time.Minute, 50*time.Millisecond)
	return csv.UID
}

// account returns the step for a ServiceAccount of a package's version.
func (p *plan) account(pkg, version string) step.Step {
	owner := p.owner
	owner.Package, owner.CSV = pkg, pkg+"."+version
	owner.UID = p.csv(owner.CSV)
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	obj.SetNamespace(owner.Namespace)
	obj.SetName("shared")
	obj.SetLabels(owner.Labels())
	obj.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
	return step.Step{Object: obj, Owner: owner}
}

// execute executes the steps as one plan, and returns their statuses.
func (p *plan) execute(steps ...step.Step) []operatorsv1alpha1.StepStatus {
	p.t.Helper()
	states, err := p.executor.Gather(p.t.Context(), steps)
	require.NoError(p.t, err)
	var out []operatorsv1alpha1.StepStatus
	for _, s := range states {
		require.NoError(p.t, s.Problem)
		require.NoError(p.t, p.executor.DryRun(p.t.Context(), s))
		done, err := p.executor.Do(p.t.Context(), s)
		require.NoError(p.t, err)
		require.NotEmpty(p.t, done.Live.GetUID())
		out = append(out, done.Status)
	}
	return out
}

func (p *plan) sharedBy() (labels map[string]string, owners []string) {
	p.t.Helper()
	sa := &corev1.ServiceAccount{}
	require.NoError(p.t, p.client.Get(p.t.Context(), client.ObjectKey{Namespace: p.owner.Namespace, Name: "shared"}, sa))
	for _, ref := range sa.OwnerReferences {
		owners = append(owners, ref.Name)
	}
	return sa.Labels, owners
}

func TestPackagesOfANamespaceShareAServiceAccount(t *testing.T) {
	created, present := operatorsv1alpha1.StepStatusCreated, operatorsv1alpha1.StepStatusPresent
	p := newPlan(t)
	a, b := p.account("a", "v1"), p.account("b", "v1")
	require.Equal(t, []operatorsv1alpha1.StepStatus{created, present}, p.execute(a, b), "in one plan")
	labels, owners := p.sharedBy()
	require.Equal(t, a.Owner.Labels(), labels)
	require.ElementsMatch(t, []string{"a.v1", "b.v1"}, owners)

	writes := p.writes.Load()
	require.Equal(t, []operatorsv1alpha1.StepStatus{present}, p.execute(b))
	require.Equal(t, writes, p.writes.Load(), "nothing changes")

	p.execute(p.account("a", "v2"))
	p.execute(p.account("b", "v2"))
	labels, owners = p.sharedBy()
	require.Equal(t, "a.v2", labels["olm.owner"])
	require.ElementsMatch(t, []string{"a.v2", "b.v2"}, owners, "each version replaces the owner reference of the previous one")
}

func TestServiceAccountsOfOthersAreNotShared(t *testing.T) {
	p := newPlan(t)
	extension := p.owner
	extension.Extension = "x"
	for name, owner := range map[string]ownerutil.Owner{"a ClusterExtension": extension, "a user": {}} {
		theirs := p.account("a", "v1").Object
		theirs.SetOwnerReferences(nil)
		if owner.Proofs != nil {
			theirs.SetLabels(owner.Labels())
			_, _, err := apply.Ensure(t.Context(), p.client, theirs, owner)
			require.NoError(t, err)
			theirs.SetLabels(p.account("a", "v1").Object.GetLabels())
			require.NoError(t, p.client.Patch(t.Context(), theirs, client.Merge))
		} else {
			require.NoError(t, p.client.Create(t.Context(), theirs))
		}
		states, err := p.executor.Gather(t.Context(), []step.Step{p.account("b", "v1")})
		require.NoError(t, err)
		require.True(t, apply.IsCollision(states[0].Problem), "%s: %v", name, states[0].Problem)
		require.NoError(t, p.client.Delete(t.Context(), theirs))
	}
}
