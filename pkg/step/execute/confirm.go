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

// confirmTimeout bounds the time in which the bindings of a Role are checked after it got its rules, including the removal of the rules,
// and maxRevocations the attempts to remove them.
const (
	confirmTimeout = 30 * time.Second
	maxRevocations = 3
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

// confirm checks the bindings of a Role once more after its rules have been written: the seal does not prevent users who have all
// permissions that it contains from binding the Role, and the API server may have accepted a binding before the Role was sealed and
// stored it later. If the check fails, or if the result of the write is uncertain, confirm removes the rules again, because later checks
// omit a Role that has its rules. live is the state of the Role before the write. confirm completes even if ctx is canceled.
func (r Roles) confirm(ctx context.Context, c client.Client, live, role *unstructured.Unstructured, write outcome) error {
	if write.err != nil && !write.isUncertain() {
		return write.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	why := write.err
	if why == nil {
		why = r.judgeLive(ctx, live, role)
	}
	if why == nil {
		return nil
	}
	log.FromContext(ctx).Info("Removing the rules of a Role whose bindings were not confirmed", "role", apply.Describe(role))
	var err error
	for range maxRevocations {
		if err = r.revoke(ctx, c, cmp.Or(write.written, live), role); err == nil {
			return why
		}
	}
	log.FromContext(ctx).Error(err, "Cannot remove the rules of a Role whose bindings were not confirmed", "role", apply.Describe(role))
	return fmt.Errorf("%w; the rules of %s could not be removed again: %v", why, apply.Describe(role), err) //nolint:errorlint // a conflict of the removal must not be retried like one of the write
}

// revoke replaces the rules of a Role with those of the seal. live identifies the Role; if it is nil, revoke reads the Role. It does not
// depend on the latest version: users who may write Roles, but do not have the permissions in the Role, can still change its finalizers,
// owner references and field managers at any time, and make it as large as the API server allows.
func (r Roles) revoke(ctx context.Context, c client.Client, live, role *unstructured.Unstructured) (err error) {
	if live == nil {
		if live, err = apply.Live(ctx, c, role); err != nil || live == nil {
			return err
		}
	}
	sealed, _ := sealedFor(withoutNames(role), r.now())
	if err := apply.Overwrite(ctx, c, live, sealed, r.Owner); err == nil {
		return nil
	}
	if err = empty(ctx, c, live); err == nil {
		return nil
	}
	if now, failed := apply.Live(ctx, c, role); failed == nil && (now == nil || now.GetUID() != live.GetUID()) {
		return nil // the Role was deleted: the binding refers to nothing, or to a Role of another user
	}
	return err
}

// empty removes all rules of a Role, and what other users may have added to it to prevent this.
func empty(ctx context.Context, c client.Client, role *unstructured.Unstructured) error {
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
