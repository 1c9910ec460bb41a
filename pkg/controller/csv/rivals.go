package csv

import (
	"context"
	"errors"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/preflight"
)

// rivalIndex indexes the ClusterServiceVersions that have failed because an operator of another OperatorGroup provides
// one of their APIs.
const rivalIndex = "remit.dev/has-rival"

// indexFields adds the indexes that this controller uses.
func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(kit.IndexLineage(ctx, indexer), provided.Index(ctx, indexer),
		indexer.IndexField(ctx, &operatorsv1alpha1.ClusterServiceVersion{}, rivalIndex, func(obj client.Object) []string {
			if csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion); ok && hasRival(csv) {
				return []string{"true"}
			}
			return nil
		}))
}

func hasRival(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return !isCopy(csv) && csv.Status.Phase == phaseFailed && csv.Status.Reason == reasonOwnerConflictGroups
}

// gatherRivals records in the facts if the CSV's OperatorGroup has static APIs that do not include the CSV's, or if an operator
// of another OperatorGroup already provides one of the CSV's APIs.
func (r *Reconciler) gatherRivals(ctx context.Context, s *scope) error {
	if s.facts.Group != nil || s.facts.ReplacedBy != "" {
		return nil
	}
	apis := provided.Of(s.csv)
	if s.group.Spec.StaticProvidedAPIs && !provided.Allows(s.group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotationKey], apis) {
		s.facts.Group = &Problem{reasonStaticAPIs, messageStaticAPIs}
		return nil
	}
	found, err := provided.Conflicts{
		Reader: r.Client, RBAC: r.RBAC, Proofs: r.Proofs, Groups: r.Default.Lookup(r.Client),
		Filter: preflight.NamespaceFilter{RBAC: r.RBAC, Ask: r.confirmer.Ask},
	}.Exists(ctx, s.csv, s.targets)
	if found {
		s.facts.Group = &Problem{reasonOwnerConflictGroups, messageGroupConflict}
	}
	return err
}

// governed returns requests for the CSVs in the namespace of an OperatorGroup, and for the rivals of these CSVs.
func (r *Reconciler) governed(ctx context.Context, og client.Object) []reconcile.Request {
	return append(r.inNamespace(ctx, og), r.rivals(ctx, og)...)
}

// rivals returns requests for the CSVs of other namespaces that have failed because of a conflict and provide an API of
// the CSV that changed or, for other objects, of a CSV in the object's namespace. A CSV without a conflict needs no
// request, because it keeps its APIs.
func (r *Reconciler) rivals(ctx context.Context, obj client.Object) []reconcile.Request {
	failed := &operatorsv1alpha1.ClusterServiceVersionList{}
	err := r.Client.List(ctx, failed, client.MatchingFields{rivalIndex: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil || len(failed.Items) == 0 {
		return nil
	}
	changed := &operatorsv1alpha1.ClusterServiceVersionList{}
	if csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion); ok {
		changed.Items = append(changed.Items, *csv)
	} else if err := r.Client.List(ctx, changed, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	apis := sets.New(provided.Union(changed.Items)...)
	var out []reconcile.Request
	for i := range failed.Items {
		csv := &failed.Items[i]
		if csv.Namespace != obj.GetNamespace() && apis.HasAny(provided.Of(csv)...) {
			out = append(out, kit.Request(csv.Namespace, csv.Name))
		}
	}
	return out
}
