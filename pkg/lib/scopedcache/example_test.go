package scopedcache_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/scopedcache"
)

// A manager whose cache watches ConfigMaps cluster-wide, and other kinds only in the scopes that are read.
func ExampleBuilder() {
	var scoped *scopedcache.Cache
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		NewCache: scopedcache.Builder(scopedcache.Options{Primary: []client.Object{&corev1.ConfigMap{}}}, &scoped),
	})
	if err != nil {
		return
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WatchesRawSource(scoped.Changes(nil)). // also reconcile when a permission is granted or revoked
		Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
	_ = err
}

// A reconcile that reads all Secrets in one namespace and a single Secret in another. Both are watched until the
// ConfigMap is deleted.
func ExampleWithOwner() {
	_ = func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		owner, err := scopedcache.OwnerOf(cm, c.Scheme())
		if err != nil {
			return err
		}
		ctx = scopedcache.WithOwner(ctx, owner)
		var secrets corev1.SecretList
		if err := c.List(ctx, &secrets, client.InNamespace("namespace-bar")); apierrors.IsForbidden(err) {
			return nil // report err in the status; Cache.Changes wakes the ConfigMap
		} else if err != nil {
			return err
		}
		var secret corev1.Secret
		return c.Get(ctx, client.ObjectKey{Namespace: "other", Name: "secret-bar"}, &secret)
	}
}

// A claim for the whole cluster, without a read.
func ExampleCache_Ensure() {
	_ = func(ctx context.Context, c *scopedcache.Cache, owner scopedcache.OwnerRef) ([]scopedcache.ClaimStatus, error) {
		c.Ensure(ctx, owner, scopedcache.Claim{Kind: &corev1.Secret{}, Scope: scopedcache.Cluster()})
		return c.Wait(ctx, owner)
	}
}

func ExampleOptions_transform() {
	options := scopedcache.Options{}
	options.Transform = func(obj any) (any, error) {
		obj.(client.Object).SetManagedFields(nil)
		return obj, nil
	}
}
