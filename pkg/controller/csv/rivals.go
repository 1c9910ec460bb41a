package csv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/preflight"
)

// rivals contains the ClusterServiceVersions that have a conflict with an operator of another OperatorGroup, and the namespace of that
// operator. Changes in that namespace can end the conflict. To find them by their APIs would take time for each Deployment of the cluster,
// because both sides can own thousands of APIs. The zero value is empty, and it is safe for concurrent use.
type rivals struct {
	mu sync.Mutex
	// of contains the namespace of the rival, and in the same the other way around.
	of map[client.ObjectKey]string
	in map[string]map[client.ObjectKey]bool
}

// set records that a ClusterServiceVersion has a rival in a namespace, or none if it is "". It returns whether the namespace is new.
func (r *rivals) set(key client.ObjectKey, namespace string) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.of[key]
	if was == namespace {
		return false
	}
	if was != "" {
		delete(r.in[was], key)
		if len(r.in[was]) == 0 {
			delete(r.in, was)
		}
		delete(r.of, key)
	}
	if namespace == "" {
		return true
	}
	if r.of == nil {
		r.of, r.in = map[client.ObjectKey]string{}, map[string]map[client.ObjectKey]bool{}
	}
	if r.in[namespace] == nil {
		r.in[namespace] = map[client.ObjectKey]bool{}
	}
	r.of[key], r.in[namespace][key] = namespace, true
	return true
}

// waiting returns the ClusterServiceVersions that have a rival in a namespace.
func (r *rivals) waiting(namespace string) []client.ObjectKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.in[namespace]))
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
	conflicts := provided.Conflicts{
		Reader: r.Client, RBAC: r.RBAC, Proofs: r.Proofs, Groups: r.Default.Lookup(r.Client),
		Filter: preflight.NamespaceFilter{RBAC: r.RBAC, Ask: r.confirmer.Ask},
	}
	for attempt := 0; ; attempt++ {
		namespace, err := conflicts.Rival(ctx, s.csv, s.owner, s.targets)
		if err != nil {
			return fmt.Errorf("find an operator with the same APIs: %w", err)
		}
		// What changed there before it was recorded has woken nothing, so the result may be outdated.
		if r.rivals.set(client.ObjectKeyFromObject(s.csv), namespace) && namespace != "" && attempt == 0 {
			continue
		}
		if namespace != "" {
			s.facts.Group = &Problem{reasonOwnerConflictGroups, messageGroupConflict}
		}
		return nil
	}
}

// governed returns requests for the CSVs in the namespace of an OperatorGroup, and for the rivals of these CSVs.
func (r *Reconciler) governed(ctx context.Context, og client.Object) []reconcile.Request {
	return append(r.inNamespace(ctx, og), r.rivalsOf(ctx, og)...)
}

// rivalsOf returns requests for the CSVs of other namespaces that have failed because of a conflict with an operator in the object's
// namespace. A CSV without a conflict needs no request, because it keeps its APIs.
func (r *Reconciler) rivalsOf(_ context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, key := range r.rivals.waiting(obj.GetNamespace()) {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}
