package excess

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// ErrNoIdentity is the reason why objects remain if there is no identity that could delete them.
var ErrNoIdentity = errors.New("no identity may delete them")

// Delete deletes the objects that have not changed since they were read. It returns those that the client is not allowed to
// delete or that have changed, and the reason. It calls removed for each deleted object.
func Delete(ctx context.Context, own client.Client, objs []Object, removed func(client.Object)) (remain []Object, why, err error) {
	for _, o := range objs {
		err := CheckFinalizers(o.Object)
		if err == nil {
			err = apply.DeleteUnchanged(ctx, own, o.Object)
		}
		_, isKept := errors.AsType[*KeptError](err)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsConflict(err) || isKept:
			remain, why = append(remain, o), err
		case err != nil:
			return nil, nil, err
		default:
			removed(o.Object)
		}
	}
	return remain, why, nil
}

// Commands returns the shell commands that remove the objects.
func Commands(objs []Object) []string {
	var out []string
	for _, o := range objs {
		out = append(out, Command(o.Object))
	}
	return out
}
