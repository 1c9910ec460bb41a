package preflight

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// maxExamined is the maximum number of objects of installed versions that one check reads.
const maxExamined = 1000

// examined records which objects of installed versions exist and belong to their lineage. An upgrade removes only these. Their names
// come from the spec of a ClusterServiceVersion or the status of a ClusterExtension, whose authors can name objects of other users.
type examined struct {
	asked map[string]bool
	// unread is the number of objects that could not be read; why is the reason for the first one.
	unread int
	why    string
}

// owns reports whether an object exists and has the label of the owner's lineage, which only users who may write the object can
// set: this command cannot verify proofs. It returns false for objects that cannot be read.
func (e *examined) owns(ctx context.Context, c client.Reader, obj client.Object, owner ownerutil.Lineage) bool {
	key := apply.Describe(obj)
	if owned, done := e.asked[key]; done {
		return owned
	}
	if len(e.asked) >= maxExamined {
		e.skip(fmt.Sprintf("more than %d objects would have to be read", maxExamined))
		return false
	}
	if e.asked == nil {
		e.asked = map[string]bool{}
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), live)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		e.skip(err.Error())
	}
	e.asked[key] = err == nil && owner.Marks(live)
	return e.asked[key]
}

func (e *examined) skip(why string) {
	if e.unread++; e.unread == 1 {
		e.why = why
	}
}

// notes says for how many objects it is unknown whether an upgrade removes them.
func (e *examined) notes() []string {
	if e.unread == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d object(s) that an upgrade may remove could not be examined, so the permissions to remove them are not included: %s", e.unread, e.why)}
}
