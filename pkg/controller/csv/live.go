package csv

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// A ClusterServiceVersion of 1.5 MiB takes tens of MiB in memory, and its metadata alone can be almost as large as the whole. liveSize
// is therefore the number of objects in one page, of which only metadata is read, and maxLive limits how many are read at all.
const (
	liveSize = 25
	maxLive  = 10_000
)

// liveCSVs calls visit with the metadata of each ClusterServiceVersion in a namespace, including copies, according to the API
// server. It returns an error if there are too many, because callers conclude something from the absence of one.
func (r *Reconciler) liveCSVs(ctx context.Context, namespace string, visit func(*metav1.PartialObjectMetadata)) error {
	for read, page := 0, ""; ; {
		list := kit.Copies()
		if err := r.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(liveSize), client.Continue(page)); err != nil {
			return fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", namespace, err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		read, page = read+len(list.Items), list.Continue
		switch {
		case page == "":
			return nil
		case read >= maxLive:
			return fmt.Errorf("namespace %q has more than %d ClusterServiceVersions", namespace, maxLive)
		}
	}
}
