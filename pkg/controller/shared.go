package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/proof"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/version"
	"github.com/remit-olm/remit/pkg/rbac"
)

// shared contains the dependencies that the controllers of all programs share.
type shared struct {
	rbac       rbac.Listers
	accounts   *scoped.Clients
	enrollment *Enrollment
	proofs     *proof.Keys
	// version returns the API server's version.
	version func() (string, error)
}

func newShared(ctx context.Context, mgr ctrl.Manager, userAgent, namespace string) (s shared, err error) {
	if s.rbac, err = RBACListers(ctx, mgr); err != nil {
		return s, err
	}
	s.accounts, err = scoped.NewClients(scoped.Options{
		Base: mgr.GetConfig(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), UserAgent: version.UserAgent(userAgent),
	})
	if err != nil {
		return s, err
	}
	err = kit.OnChange(ctx, mgr.GetCache(), []client.Object{&corev1.ServiceAccount{}}, func(before, after client.Object) {
		if after == nil { // the account was deleted, so its cached client and token are dropped
			s.accounts.Forget(client.ObjectKeyFromObject(before))
		}
	})
	if err != nil {
		return s, err
	}
	if s.enrollment, err = NewEnrollment(ctx, mgr.GetClient()); err != nil {
		return s, err
	}
	if s.version, err = serverVersion(mgr); err != nil {
		return s, err
	}
	s.proofs, err = proofs(ctx, mgr, namespace, s.enrollment.ahead)
	return s, err
}

// versionAge is how long the API server's version is cached. The server can be upgraded while this program runs, but
// upgrades are rare compared to reconciles.
const versionAge = 10 * time.Minute

// serverVersion returns a function that reads the version through discovery and caches it for versionAge.
func serverVersion(mgr ctrl.Manager) (func() (string, error), error) {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("create discovery client: %w", err)
	}
	var mu sync.Mutex
	var known string
	var asked time.Time
	return func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != "" && time.Since(asked) < versionAge {
			return known, nil
		}
		info, err := disco.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("get server version: %w", err)
		}
		known, asked = info.GitVersion, time.Now()
		return known, nil
	}, nil
}

// proofs reads the proof keys, and creates the first one if there are none. It watches their Secret, so that a new key
// is used without a restart. The program does not start without a key.
func proofs(ctx context.Context, mgr ctrl.Manager, namespace string, ahead time.Duration) (*proof.Keys, error) {
	live, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("create client for the proof keys: %w", err)
	}
	secret := types.NamespacedName{Namespace: namespace, Name: names.SecretProof}
	keys, err := proof.Load(ctx, live, proof.Options{Scheme: mgr.GetScheme(), Secret: secret, Ahead: ahead})
	if err != nil {
		return nil, err
	}
	return keys, kit.OnChange(ctx, mgr.GetCache(), []client.Object{&corev1.Secret{}}, func(_, after client.Object) {
		changed, ok := after.(*corev1.Secret)
		if !ok || client.ObjectKeyFromObject(changed) != secret {
			mgr.GetLogger().Info("The Secret with the proof keys was deleted; restore it before this program restarts", "Secret", secret.String())
			return
		}
		if err := keys.Update(changed.Data); err != nil {
			mgr.GetLogger().Error(err, "Keeping the previous proof keys")
		}
	})
}
