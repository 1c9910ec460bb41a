package clusterextension

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// trimmer returns a function that removes the fields of an object that the caches do not need. A watch of a namespace
// includes objects of other users, whose number and size are not limited. For an object that no install created, only
// its identity and resource version are kept, so that changes to it are still detected.
func trimmer(proofs ownerutil.Proofs) toolscache.TransformFunc {
	return func(received any) (any, error) {
		obj, ok := received.(client.Object)
		if !ok {
			return received, nil
		}
		if mark := obj.GetLabels()[names.LabelLineage]; mark != "" && proofs.Check(obj, mark) == nil {
			obj.SetManagedFields(nil)
			return obj, nil
		}
		out := kindFor(apply.Reference(obj.GetObjectKind().GroupVersionKind(), "", ""))
		out.SetNamespace(obj.GetNamespace())
		out.SetName(obj.GetName())
		out.SetUID(obj.GetUID())
		out.SetResourceVersion(obj.GetResourceVersion())
		return out, nil
	}
}
