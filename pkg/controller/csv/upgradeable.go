package csv

import (
	"context"
	"fmt"
	"maps"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// holds contains the reasons why versions in a namespace must not be replaced, keyed by the name of the version.
type holds map[string]string

// gatherHolds reads the OperatorConditions of a namespace. Who created them does not matter: the API server decides who
// may write them, and they can only delay or permit an upgrade, which is bounded by the account.
func (r *Reconciler) gatherHolds(ctx context.Context, namespace string) (holds, error) {
	list := &operatorsv2.OperatorConditionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list OperatorConditions in namespace %q: %w", namespace, err)
	}
	out := holds{}
	for i := range list.Items {
		if why := condition.HeldBack(&list.Items[i]); why != "" {
			out[list.Items[i].Name] = why
		}
	}
	return out, nil
}

// gatherHeldBack records in the facts why the CSV must not replace an older version yet. It returns the siblings except
// those that are held back themselves: until they are installed, the version that they replace continues to run.
func (r *Reconciler) gatherHeldBack(ctx context.Context, s *scope, subs []operatorsv1alpha1.Subscription) (siblings, error) {
	held, err := r.gatherHolds(ctx, s.csv.Namespace)
	if err != nil || len(held) == 0 {
		return s.siblings, err
	}
	all := maps.Clone(s.siblings)
	all[s.csv.Name] = s.csv
	why := func(c *operatorsv1alpha1.ClusterServiceVersion) string {
		reason := all.heldBack(c, held)
		if reason != "" && r.hasInstalled(ctx, c, r.ownerOf(c, r.subscriptionOf(c, subs))) {
			return ""
		}
		return reason
	}
	s.facts.HeldBack = why(s.csv)
	active := siblings{}
	for name, c := range s.siblings {
		if why(c) == "" {
			active[name] = c
		}
	}
	return active, nil
}

// heldBack returns the reason why a CSV in phase Pending must not replace the versions before it, or "" if it may. An
// older version that is being deleted no longer counts.
func (all siblings) heldBack(csv *operatorsv1alpha1.ClusterServiceVersion, held holds) string {
	if csv.Status.Phase != phaseNone && csv.Status.Phase != phasePending {
		return ""
	}
	seen := map[string]bool{csv.Name: true}
	for older := csv.Spec.Replaces; !seen[older] && len(seen) <= maxFollowers; {
		c := all[older]
		if c == nil {
			return ""
		}
		if why := held[older]; why != "" && c.DeletionTimestamp == nil {
			return why
		}
		seen[older] = true
		older = c.Spec.Replaces
	}
	return ""
}

// conditionAccess renders the Role and RoleBinding that let the operator update its OperatorCondition.
func (s *scope) conditionAccess() ([]*unstructured.Unstructured, error) {
	return condition.Access(s.csv, s.owner)
}

// grantCondition writes, as the account, the Role and RoleBinding that let the operator update its OperatorCondition. want
// contains all roles and bindings of the install. Operators that report no conditions need neither object. If the account does
// not have the same permissions or may not write the objects, nothing is written and the install continues; the operatorcondition
// controller reports what is missing.
func (r *Reconciler) grantCondition(ctx context.Context, s *scope, account client.Client, want, access []*unstructured.Unstructured) error {
	due, err := r.notInPlace(ctx, s, access)
	if err != nil || len(due) == 0 {
		return err
	}
	if held := r.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), s.csv.Namespace); !condition.MayReport(held, s.csv.Name) {
		return nil
	}
	switch missing := r.missingPermissions(ctx, s, forCondition, due); {
	case isMissingPermissions(missing):
		return nil
	case missing != nil:
		return missing
	}
	roles := execute.Roles{RBAC: r.RBAC, Owner: s.owner, Rendered: want, Live: r.Live}
	for _, obj := range due {
		_, _, err := roles.EnsureUncached(ctx, account, obj)
		switch {
		case err == nil:
			continue
		case !isReported(err):
			return err
		case kit.Is[*apply.DelayedError](err):
			s.wakeAfter(minDelay)
		}
		log.FromContext(ctx).Info("Cannot allow the operator to update its OperatorCondition", "reason", summary(err))
		return nil
	}
	return nil
}

// conditioned returns requests for the CSV of an OperatorCondition, and for the CSVs that wait to replace it or a version after it.
func (r *Reconciler) conditioned(ctx context.Context, obj client.Object) []reconcile.Request {
	out := request(obj.GetNamespace(), obj.GetName())
	seen := sets.New(out...)
	for next := 0; next < len(out) && len(out) <= maxWoken; next++ {
		for _, newer := range r.keyed(ctx, obj.GetNamespace(), byReplaces+out[next].Name, kit.Any, client.Limit(maxWoken)) {
			if !seen.Has(newer) {
				seen.Insert(newer)
				out = append(out, newer)
			}
		}
	}
	return out
}

// holdChanged accepts events that change whether or why an OperatorCondition holds back an upgrade.
func holdChanged() predicate.Predicate {
	why := func(obj client.Object) string {
		c, ok := obj.(*operatorsv2.OperatorCondition)
		if !ok {
			return ""
		}
		return condition.HeldBack(c)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return why(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return why(e.ObjectOld) != why(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return why(e.Object) != "" },
	}
}
