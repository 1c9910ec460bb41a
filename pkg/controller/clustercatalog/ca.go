package clustercatalog

import (
	"context"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// PublishCA returns a function that writes the CAs of the catalog server to a ConfigMap in Remit's namespace, where
// clients can read them.
func PublishCA(c client.Client, namespace string) func(ctx context.Context, bundle []byte) error {
	return func(ctx context.Context, bundle []byte) error {
		config := corev1ac.ConfigMap(names.ConfigMapCatalogContentCA, namespace).WithData(map[string]string{names.KeyCA: string(bundle)})
		if err := c.Apply(ctx, config, client.FieldOwner(names.FieldManager)); err != nil {
			return fmt.Errorf("apply ConfigMap %s: %w", names.ConfigMapCatalogContentCA, err)
		}
		return nil
	}
}
