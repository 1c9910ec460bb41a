package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/proof"
)

// proofs reads the keys of proofs, or creates the first one, and watches their Secret, so that a new key is used without
// a restart. The program does not start without a key.
func proofs(ctx context.Context, mgr ctrl.Manager, namespace string, ahead time.Duration) (*proof.Keys, error) {
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("client for the keys of proofs: %w", err)
	}
	secret := types.NamespacedName{Namespace: namespace, Name: names.SecretProof}
	keys, err := proof.Load(ctx, live, proof.Options{Scheme: mgr.GetScheme(), Secret: secret, Ahead: ahead})
	if err != nil {
		return nil, err
	}
	return keys, kit.OnChange(ctx, mgr.GetCache(), []client.Object{&corev1.Secret{}}, func(_, after client.Object) {
		changed, ok := after.(*corev1.Secret)
		if !ok || client.ObjectKeyFromObject(changed) != secret {
			mgr.GetLogger().Info("The keys of proofs were deleted; restore them before a restart", "Secret", secret.String())
			return
		}
		if err := keys.Update(changed.Data); err != nil {
			mgr.GetLogger().Error(err, "Keeping the previous keys of proofs")
		}
	})
}
