package scoped

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A ClusterServiceVersion of 1.5 MiB takes tens of MiB in memory, and its metadata alone can be almost as large as the whole. versionsPage
// is therefore the number of objects in one page, of which only metadata is read, and maxVersions limits how many are read at all.
const (
	versionsPage = 25
	maxVersions  = 10_000
)

// EachVersion calls visit with the metadata of each ClusterServiceVersion in a namespace, including copies, according to the API
// server. It returns an error if there are too many, because callers conclude something from the absence of one.
func EachVersion(ctx context.Context, live client.Reader, namespace string, visit func(*metav1.PartialObjectMetadata)) error {
	for read, page := 0, ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind + "List"))
		if err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(versionsPage), client.Continue(page)); err != nil {
			return fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", namespace, err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		read, page = read+len(list.Items), list.Continue
		switch {
		case page == "":
			return nil
		case read >= maxVersions:
			return fmt.Errorf("namespace %q has more than %d ClusterServiceVersions", namespace, maxVersions)
		}
	}
}
