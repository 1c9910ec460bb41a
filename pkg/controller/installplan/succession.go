package installplan

import (
	"context"
	"strings"
	"sync"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// successions returns the needs that result from the plan's upgrades, in addition to the needs of its steps.
func (s *run) successions(ctx context.Context) (out []preflight.Need, err error) {
	err = s.eachUpgrade(ctx, func(from *operatorsv1alpha1.ClusterServiceVersion, to step.Step) error {
		needs, err := preflight.Succession{From: from, To: to, Steps: s.steps, Targets: s.targets,
			Owned:     func(st step.Step) bool { return s.owned(ctx, st) },
			HandsOver: func(st step.Step) bool { return s.belongsTo(ctx, st, from.Name) && s.guarded(ctx) }}.Needs()
		out = append(out, needs...)
		return err
	})
	return out, err
}

// owned reports whether an object of the replaced version exists and belongs to its lineage, according to the cache. This program may
// not read webhook configurations, whose names contain a hash of the namespace and the package, so that no other install has
// one with such a name.
func (s *run) owned(ctx context.Context, st step.Step) bool {
	switch st.Object.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		return true
	case "APIService":
		live := &apiregistrationv1.APIService{}
		return s.reconciler.Client.Get(ctx, client.ObjectKeyFromObject(st.Object), live) == nil && st.Owner.Owns(live)
	}
	live, err := s.reconciler.RBAC.Object(st.Object.GetKind(), st.Object.GetNamespace(), st.Object.GetName())
	return err == nil && live != nil && st.Owner.Owns(live)
}

// belongsTo reports whether a step's object exists and belongs to the replaced version. It uses the cache or, for kinds
// that the cache does not contain, the status of the plan that installed that version. The result only affects which
// permissions are reported early.
func (s *run) belongsTo(ctx context.Context, st step.Step, version string) bool {
	live, err := s.seen(ctx, st)
	if err == nil && live == nil {
		return s.wasShown(ctx, st, version)
	}
	return err == nil && st.Owner.Owns(live) && preflight.BelongsToOther(live, st.Owner.CSV)
}

// wasShown reports whether a completed plan lists a step's object among the objects of a version.
func (s *run) wasShown(ctx context.Context, st step.Step, version string) bool {
	if s.executed == nil {
		s.executed = s.shownByOthers(ctx)
	}
	return s.executed[stepID(&operatorsv1alpha1.Step{Resolving: version, Resource: operatorsv1alpha1.StepResource{
		Group: st.Object.GroupVersionKind().Group, Kind: st.ShownKind(), Name: st.Object.GetName(),
	}})]
}

// shownByOthers returns the stepIDs of the steps in the status of the namespace's Complete plans.
func (s *run) shownByOthers(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	list := &operatorsv1alpha1.InstallPlanList{}
	if s.reconciler.Client.List(ctx, list, client.InNamespace(s.plan.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return out
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete {
			continue
		}
		for _, shown := range list.Items[i].Status.Plan {
			if shown != nil {
				out[stepID(shown)] = true
			}
		}
	}
	return out
}

func (s *run) guarded(ctx context.Context) bool {
	r := s.reconciler
	return r.owners.guarded(ctx, r.Live, r.Client, client.ObjectKey{Namespace: r.Home, Name: names.ServiceAccountCatalog})
}

// owners records whether changing the owners of an object requires the permission to delete the object (admission
// plugin OwnerReferencesPermissionEnforcement). Only a refused request shows whether the cluster requires it.
type owners struct {
	mu           sync.Mutex
	known, holds bool
}

// tries is the maximum number of attempts if the Lease is renewed concurrently.
const tries = 5

// guarded reports whether changing the owners of an object requires the permission to delete the object. It asks the
// API server once, with a dry run that adds an owner to this program's own Lease, which this program may update but not
// delete. Until the answer is known, guarded returns false; in this case, the dry run of the plan's objects shows
// whether the permission is missing.
func (o *owners) guarded(ctx context.Context, live client.Reader, c client.Writer, lease client.ObjectKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range tries {
		if o.known {
			return o.holds
		}
		own := &coordinationv1.Lease{}
		if err := live.Get(ctx, lease, own); err != nil {
			return false
		}
		own.OwnerReferences = append(own.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ServiceAccount", Name: lease.Name, UID: "00000000-0000-0000-0000-000000000000",
		})
		err := c.Update(ctx, own, client.DryRunAll)
		switch {
		case err == nil:
			o.known, o.holds = true, false
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ownerRef"): // any other refusal concerns the update itself, not the owner references
			o.known, o.holds = true, true
		case !apierrors.IsConflict(err):
			return false
		}
	}
	return o.known && o.holds
}
