package csv

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// secretWatches watches the Secrets of serving certificates. A Secret that is not watched is only checked every
// secretCheckInterval.
type secretWatches struct {
	kit.Waker
	kit.Watches[secretKey]
	// open watches the metadata of one Secret as an account; nil disables watches.
	open func(ctx context.Context, account scoped.Account, key types.NamespacedName) (watch.Interface, error)
}

// secretKey identifies a Secret of a CSV. Two CSVs can have the same Secret during an upgrade.
type secretKey struct {
	csv    types.NamespacedName
	secret string
}

func newSecretWatches(open func(ctx context.Context, account scoped.Account, key types.NamespacedName) (watch.Interface, error)) *secretWatches {
	w := &secretWatches{open: open}
	w.Watches.Wake = func(key secretKey) { w.Waker.Wake(key.csv) }
	w.Watches.Namespace = func(key secretKey) string { return key.csv.Namespace }
	return w
}

// watchSecrets watches the Secrets of the CSV's certificates before certify reads them, so that no change is missed. It
// sends no request for a Secret that the account may not watch according to RBAC; a grant wakes the CSV. Nothing retries
// a failed request before the next reconcile.
func (r *Reconciler) watchSecrets(ctx context.Context, s *scope) error {
	var names []string
	if s.acting.Known() && !s.hooks.Empty() && !s.hooks.Outsourced() {
		for _, d := range s.hooks.Served {
			name := cert.SecretName(d.Name)
			if r.secrets.open != nil && r.holds(s, watchSecretRule(name), s.csv.Namespace) {
				names = append(names, name)
			}
		}
	}
	r.secrets.set(ctx, client.ObjectKeyFromObject(s.csv), s.account, names)
	return nil
}

func watchSecretRule(name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"watch"}}
}

// set opens the missing watches of a CSV and closes its other watches. It must not be called concurrently for the same
// CSV.
func (w *secretWatches) set(ctx context.Context, csv types.NamespacedName, account scoped.Account, names []string) {
	w.Close(func(key secretKey, is string) bool {
		return key.csv == csv && (is != string(account.UID) || !slices.Contains(names, key.secret))
	})
	for _, name := range names {
		_, err := w.Open(ctx, secretKey{csv, name}, string(account.UID), func(ctx context.Context) (watch.Interface, error) {
			return w.open(ctx, account, types.NamespacedName{Namespace: csv.Namespace, Name: name})
		})
		if err != nil {
			log.FromContext(ctx).V(1).Info("Not watching a Secret", "Secret", name, "error", err.Error())
		}
	}
}

// begin starts reading the events of a Secret's watch. Each event wakes the CSV, except an event for the version that
// certify has read. version is "" if the Secret did not exist.
func (w *secretWatches) begin(csv types.NamespacedName, secret, version string) {
	w.Begin(secretKey{csv, secret}, version)
}

// drop closes the watches of a CSV.
func (w *secretWatches) drop(csv types.NamespacedName) {
	w.Close(func(key secretKey, _ string) bool { return key.csv == csv })
}
