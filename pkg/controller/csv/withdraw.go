package csv

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/install/warrant"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// withdraw removes the rules of Roles whose bindings were not confirmed after the rules had been written, if the account is not allowed to
// write these Roles any more: whoever bound one may also have revoked that permission, so that the account could not remove the rules. It
// acts as the default account, and then as the optional identity for removals. If neither may, the Role stays unconfirmed.
func (r *Reconciler) withdraw(ctx context.Context, s *scope, due []*unstructured.Unstructured) error {
	for _, obj := range due {
		if !s.unconfirmed[apply.Describe(obj)] {
			continue
		}
		switch missing := r.missingPermissions(ctx, s, forPreparing, []*unstructured.Unstructured{obj}); {
		case missing == nil:
			continue // it is confirmed when it is written again
		case !isMissingPermissions(missing):
			return missing
		}
		live, err := apply.LiveContent(ctx, r.Live, obj)
		if err != nil {
			return fmt.Errorf("read %s: %w", apply.Describe(obj), err)
		}
		if live == nil || !execute.IsUnconfirmed(live, obj.GetKind()) {
			continue
		}
		s.facts.Unconfirmed = true
		if err := r.withdrawOne(ctx, s, live); err != nil {
			log.FromContext(ctx).Error(err, "Cannot remove the rules of a Role whose bindings were not confirmed", "role", apply.Describe(obj))
			continue
		}
		execute.Withdrawn(obj)
		log.FromContext(ctx).Info("Removed the rules of a Role whose bindings were not confirmed", "role", apply.Describe(obj))
	}
	return nil
}

// withdrawOne removes the rules of a Role, or the Role.
func (r *Reconciler) withdrawOne(ctx context.Context, s *scope, live *unstructured.Unstructured) error {
	account, err := r.defaultAccount(ctx, s)
	if err == nil {
		err = r.withdrawAs(ctx, s, account, live)
	}
	if err == nil {
		return nil
	}
	own, reason, failed := r.Remover.Client(ctx, r.RBAC, err)
	if failed != nil {
		return failed
	}
	if own == nil {
		return reason
	}
	deleter, err := warrant.Of(own).For(warrant.Shrink, s.facts.findings())
	if err != nil {
		return err
	}
	return apply.DeleteUnchanged(ctx, deleter, live)
}

func (r *Reconciler) withdrawAs(ctx context.Context, s *scope, account scoped.Account, live *unstructured.Unstructured) error {
	own, err := r.clientFor(ctx, account)
	if err != nil {
		return err
	}
	writer, err := warrant.Of(own).For(warrant.Shrink, s.facts.findings())
	if err != nil {
		return err
	}
	return execute.Empty(ctx, writer, live)
}
