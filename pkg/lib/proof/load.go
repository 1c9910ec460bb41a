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

// Load reads the Secret, and creates it if it does not exist. The client must not read from a cache. Each process uses
// its own field manager to create the Secret. If two processes create it concurrently, the second one therefore gets a
// conflict, and reads the key that the first one created.
func Load(ctx context.Context, c client.Client, o Options) (*Keys, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, o.Secret, secret)
	if apierrors.IsNotFound(err) {
		if err = create(ctx, c, o); err == nil {
			err = c.Get(ctx, o.Secret, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of Secret %s, without which Remit does not recognize the objects that it created: %w", o.Secret, err)
	}
	return New(o, secret.Data)
}

// create applies the Secret with a new key. It uses apply because RBAC can restrict an apply, but not a create
// request, to one name.
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
