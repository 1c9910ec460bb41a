package proof

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Load reads the Secret, and creates it if it does not exist. The client must not read from a cache. If both programs create it
// concurrently, the second gets a conflict, because each uses its own field manager, and then reads the first one's key.
func Load(ctx context.Context, c client.Client, o Options) (*Keys, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, o.Secret, secret)
	if apierrors.IsNotFound(err) {
		if err = create(ctx, c, o); err == nil {
			err = c.Get(ctx, o.Secret, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of Secret %s, without which Remit does not recognize what it created: %w", o.Secret, err)
	}
	return New(o, secret.Data)
}

// create uses apply, because RBAC cannot restrict other ways of creating an object to one name.
func create(ctx context.Context, c client.Client, o Options) error {
	key, process := make([]byte, keySize), make([]byte, 4)
	_, _ = rand.Read(key) // never fails
	_, _ = rand.Read(process)
	obj := apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), o.Secret.Namespace, o.Secret.Name)
	obj.Object["data"] = map[string]any{firstKey: key}
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(names.FieldManager+"-"+hex.EncodeToString(process)))
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
