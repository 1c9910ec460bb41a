package csv

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const (
	// maxSecretWatches is the maximum number of Secrets in one namespace that are watched.
	maxSecretWatches = 32
	// rewatchDelay is the delay before the CSV of a watch that ended is reconciled, which watches the Secret again.
	rewatchDelay = 10 * time.Second
)

// secretWatches watches the Secrets of serving certificates. A Secret that is not watched is only checked every
// secretCheckInterval.
type secretWatches struct {
	kit.Waker
	// open watches the metadata of one Secret as an account; nil disables watches.
	open func(ctx context.Context, account scoped.Account, key types.NamespacedName) (watch.Interface, error)

	mu    sync.Mutex
	byKey map[secretKey]*secretWatch
}

// secretKey identifies a Secret of a CSV. Two CSVs can have the same Secret during an upgrade.
type secretKey struct {
	csv    types.NamespacedName
	secret string
}

type secretWatch struct {
	account types.UID
	events  watch.Interface
	cancel  context.CancelFunc
	// reading is true if a goroutine reads the events.
	reading bool
}

// watchSecrets watches the Secrets of the CSV's certificates before certify reads them, so that no change is missed. It
// sends no request for a Secret that the account may not watch according to RBAC; a grant wakes the CSV. Nothing retries
// a failed request before the next reconcile.
func (r *Reconciler) watchSecrets(ctx context.Context, s *scope) error {
	var names []string
	if s.acting.Known() && !s.hooks.Empty() && !s.hooks.Outsourced() {
		for _, d := range s.hooks.Served {
			name := cert.SecretName(d.Name)
			if r.secrets.open != nil && r.holds(s, watchSecretRule(name), []string{s.csv.Namespace}) {
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
	w.closeFunc(func(key secretKey, one *secretWatch) bool {
		return key.csv == csv && (one.account != account.UID || !slices.Contains(names, key.secret))
	})
	for _, name := range names {
		key := secretKey{csv, name}
		if w.isOpen(key) {
			continue
		}
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		events, err := w.open(own, account, types.NamespacedName{Namespace: csv.Namespace, Name: name})
		if err != nil {
			cancel()
			log.FromContext(ctx).V(1).Info("Not watching a Secret", "Secret", name, "error", err.Error())
			continue
		}
		w.mu.Lock()
		if w.byKey == nil {
			w.byKey = map[secretKey]*secretWatch{}
		}
		w.byKey[key] = &secretWatch{account: account.UID, events: events, cancel: cancel}
		w.mu.Unlock()
	}
}

// isOpen reports whether a Secret is watched, or must not be watched because the namespace has too many watches.
func (w *secretWatches) isOpen(key secretKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for other := range w.byKey {
		if other.csv.Namespace == key.csv.Namespace {
			n++
		}
	}
	return w.byKey[key] != nil || n >= maxSecretWatches
}

// begin starts reading the events of a Secret's watch. Each event wakes the CSV, except an event for the version that
// certify has read. version is "" if the Secret did not exist.
func (w *secretWatches) begin(csv types.NamespacedName, secret, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := secretKey{csv, secret}
	if one := w.byKey[key]; one != nil && !one.reading {
		one.reading = true
		go w.read(key, one, version)
	}
}

func (w *secretWatches) read(key secretKey, one *secretWatch, version string) {
	for event := range one.events.ResultChan() {
		obj, ok := event.Object.(metav1.Object)
		if !ok {
			break // the watch failed
		}
		if event.Type == watch.Bookmark || event.Type != watch.Deleted && obj.GetResourceVersion() == version {
			continue
		}
		version = obj.GetResourceVersion()
		w.Wake(key.csv)
	}
	ended := false
	w.closeFunc(func(_ secretKey, other *secretWatch) bool {
		ended = ended || other == one
		return other == one
	})
	if ended {
		time.AfterFunc(rewatchDelay, func() { w.Wake(key.csv) })
	}
}

// drop closes the watches of a CSV.
func (w *secretWatches) drop(csv types.NamespacedName) {
	w.closeFunc(func(key secretKey, _ *secretWatch) bool { return key.csv == csv })
}

func (w *secretWatches) closeFunc(match func(secretKey, *secretWatch) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, one := range w.byKey {
		if match(key, one) {
			delete(w.byKey, key)
			one.cancel()
			one.events.Stop()
		}
	}
}
