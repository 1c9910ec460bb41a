package execute

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// confirmTimeout bounds the time in which the bindings of a Role are checked after it got its rules, and revokeTimeout that of each of the
// maxRevocations attempts to remove the rules. The pause before the second attempt is revokePause, and each further one is twice as long.
const (
	confirmTimeout = 30 * time.Second
	revokeTimeout  = 10 * time.Second
	maxRevocations = 3
	revokePause    = 2 * time.Second
)

// outcome is what the write of a Role returned: the Role, or the error.
type outcome struct {
	written *unstructured.Unstructured
	err     error
}

// isUncertain reports whether the Role may have been stored although the write failed.
func (w outcome) isUncertain() bool {
	var status apierrors.APIStatus
	return w.err != nil && (!errors.As(w.err, &status) || status.Status().Code >= http.StatusInternalServerError)
}

// RemainingError reports that the bindings of a Role were not confirmed, and that its rules could not be removed. The Role must be
// checked again (see IsUnconfirmed), so that a plan must not be completed without it.
type RemainingError struct {
	// Why is the reason why the bindings were not confirmed.
	Why     error
	Delayed *apply.DelayedError
}

func (e *RemainingError) Error() string   { return e.Why.Error() + "; " + e.Delayed.Error() }
func (e *RemainingError) Unwrap() []error { return []error{e.Delayed} } // a conflict of the write must not be retried at once

// confirm checks the bindings of a Role once more after its rules have been written: the seal does not prevent users who have all
// permissions that it contains from binding the Role, and the API server may have accepted a binding before the Role was sealed and
// stored it later. If the check fails, or if the result of the write is uncertain, confirm removes the rules again, because later checks
// omit a Role that has its rules. Until the Role is confirmed or has no rules, it is unconfirmed. live is the state of the Role before
// the write. confirm completes even if ctx is canceled.
func (r Roles) confirm(ctx context.Context, c client.Client, live, role *unstructured.Unstructured, write outcome) error {
	if write.err != nil && !write.isUncertain() {
		return write.err
	}
	ctx = context.WithoutCancel(ctx)
	why := write.err
	if why == nil {
		why = r.judgeWritten(ctx, role)
	}
	if why == nil {
		pending.forget(role)
		return nil
	}
	live = cmp.Or(write.written, live)
	pending.remember(role, live)
	log.FromContext(ctx).Info("Removing the rules of a Role whose bindings were not confirmed", "role", apply.Describe(role))
	settled, err := r.revokeAll(ctx, c, live, role)
	switch {
	case settled:
		pending.forget(role)
		return why
	case err == nil:
		return why // the creation may be stored later
	case r.hasNoRules(ctx, c, role):
		log.FromContext(ctx).Info("The rules of a Role were not written, but a write may be stored later", "role", apply.Describe(role), "reason", err.Error())
		return why
	}
	log.FromContext(ctx).Error(err, "Cannot remove the rules of a Role whose bindings were not confirmed", "role", apply.Describe(role))
	return &RemainingError{Why: why, Delayed: &apply.DelayedError{Why: fmt.Sprintf("the rules of %s could not be removed again: %v", apply.Describe(role), err)}}
}

// judgeWritten judges the bindings of a Role that has its rules.
func (r Roles) judgeWritten(ctx context.Context, role *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	return r.judgeLive(ctx, nil, role)
}

// hasNoRules reports whether a Role exists and does not have its rules.
func (r Roles) hasNoRules(ctx context.Context, c client.Client, role *unstructured.Unstructured) bool {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	live, err := apply.LiveContent(ctx, c, role)
	return err == nil && live != nil && !sameRules(live, role)
}

// revokeAll tries to remove the rules of a Role. settled is false if it did not, or if the Role does not exist yet and live is unknown.
func (r Roles) revokeAll(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (settled bool, err error) {
	for n := range maxRevocations {
		if n > 0 {
			time.Sleep(revokePause << (n - 1))
		}
		if settled, err = r.revokeOnce(ctx, c, live, role); err == nil {
			break
		}
	}
	return settled, err
}

func (r Roles) revokeOnce(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	return r.revoke(ctx, c, live, role)
}

// revoke replaces the rules of a Role with those of the seal. live identifies the Role; if it is nil, revoke reads the Role, and changes
// only one of the install. It does not depend on the latest version: users who may write Roles, but do not have the permissions in the
// Role, can still change its finalizers, owner references and field managers at any time, and make it as large as the API server allows.
func (r Roles) revoke(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (settled bool, err error) {
	if live == nil {
		live, err = apply.LiveContent(ctx, c, role)
		if err != nil || live == nil {
			return false, err
		}
		if r.Owner.Check(live) != nil && !sameRules(live, role) {
			return true, nil // a Role of another user has the name
		}
	}
	sealed, _ := sealedFor(withoutNames(role), r.now())
	if err := apply.Overwrite(ctx, c, live, sealed, r.Owner); err == nil {
		return true, nil
	}
	if err = Empty(ctx, c, live); err == nil {
		return true, nil
	}
	if now, failed := apply.LiveContent(ctx, c, role); failed == nil && (now == nil || now.GetUID() != live.GetUID()) {
		return true, nil // the Role was deleted: the binding refers to nothing, or to a Role of another user
	}
	return false, err
}

// Empty removes all rules of a Role, and what other users may have added to it to prevent this.
func Empty(ctx context.Context, c client.Client, role *unstructured.Unstructured) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": role.GetUID(), "finalizers": nil, "ownerReferences": nil, "managedFields": []any{map[string]any{}}},
		"rules":    []any{},
	})
	if err != nil {
		return fmt.Errorf("encode the patch of %s: %w", apply.Describe(role), err)
	}
	if err := c.Patch(ctx, role.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.Manager(role.GetLabels()))); err != nil {
		return fmt.Errorf("remove the rules of %s: %w", apply.Describe(role), err)
	}
	return nil
}
