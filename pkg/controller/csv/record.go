package csv

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// record records the account that an OperatorGroup names, whether or not the ClusterServiceVersion can be installed: the author check
// has compared its author with the account, and without a record anyone who may patch it could change its spec while the
// OperatorGroup is replaced (docs/adr/0085).
//
// It acts as the controller identity: the account may not exist yet, or may not be allowed to use an earlier one, which the
// admission policy requires. The record also bounds the webhooks of a ClusterServiceVersion while there is no OperatorGroup (docs/adr/0088),
// so those with the label remit.dev/any-account, which protects their spec, have it, too.
func (r *Reconciler) record(ctx context.Context, s *scope) error {
	if s.leftToOLM {
		return nil
	}
	accounts, err := r.Default.Lookup(r.Client).Named(ctx, s.csv.Namespace)
	if err != nil {
		return err
	}
	recorded := s.csv.Annotations[names.AnnotationAccount]
	account := scoped.ToRecord(accounts, recorded)
	if account == recorded {
		return nil
	}
	before, after := metadataOf(s.csv)
	after.Annotations[names.AnnotationAccount] = account
	s.recorded = true
	err = r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("record the account of ClusterServiceVersion %s/%s: %w", s.csv.Namespace, s.csv.Name, err)
	}
	return nil
}
