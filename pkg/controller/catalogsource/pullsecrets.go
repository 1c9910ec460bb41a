package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/rbac"
)

// accessFunc is the type of Reconciler.access.
type accessFunc func(ctx context.Context, key types.NamespacedName, secrets []string, pull retry) (image.Access, error)

// access returns the credentials for a CatalogSource's image: the pull secrets that it names, and those of the
// ServiceAccount with the same name (contract 1.1). The error lists secrets that could not be read; the image may be
// public anyway. A change of RBAC that could make them readable retries the pull.
func (r *Reconciler) access(ctx context.Context, key types.NamespacedName, secrets []string, pull retry) (image.Access, error) {
	listers, done := r.interests.Track(pull, r.RBAC)
	defer done()
	credentials := &image.Credentials{}
	out := image.Access{Keychain: credentials, Anywhere: key.Namespace == r.GlobalNamespace}
	var problems []error
	account := &corev1.ServiceAccount{}
	if err := r.Client.Get(ctx, key, account); client.IgnoreNotFound(err) != nil {
		problems = append(problems, fmt.Errorf("ServiceAccount %s: %w", key.Name, err))
	}
	for _, s := range account.ImagePullSecrets {
		if !slices.Contains(secrets, s.Name) {
			secrets = append(secrets[:len(secrets):len(secrets)], s.Name)
		}
	}
	reads := secretReads{}
	for _, name := range secrets {
		version, err := r.addSecret(ctx, listers, credentials, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			problems = append(problems, err)
		}
		if version != "" || apierrors.IsNotFound(err) {
			reads[name] = version
		}
	}
	r.watches.note(pull, reads)
	return out, errors.Join(problems...)
}

// forgetAccess forgets the dependencies of a pull's access.
func (r *Reconciler) forgetAccess(pull retry) {
	_, done := r.interests.Track(pull, r.RBAC)
	done()
	r.watches.forget(pull)
}

func (r *Reconciler) addSecret(ctx context.Context, listers rbac.Listers, to *image.Credentials, key types.NamespacedName) (version string, err error) {
	if r.Secrets == nil {
		return "", fmt.Errorf("Secret %q: reading Secrets is not configured", key.Name)
	}
	secret, err := r.Secrets(ctx, listers, key)
	if err != nil {
		return "", fmt.Errorf("Secret %q: %w", key.Name, err)
	}
	return secret.ResourceVersion, to.Add(secret)
}

// maxWatches bounds the Secrets of one namespace that are watched concurrently. Further pulls wait for their next attempt.
const maxWatches = 8

// secretReads contains the versions of the pull secrets that an attempt used, by name; "" means that the Secret does
// not exist. Unreadable Secrets are not included, because RBAC changes trigger a retry.
type secretReads map[string]string

// secretWatches watches pull secrets while a failed pull waits for its retry. It uses an identity that is allowed to
// read them; the controller identity is not.
type secretWatches struct {
	// watch is Options.WatchSecret.
	watch func(ctx context.Context, key types.NamespacedName, version string, changed func())

	mu    sync.Mutex
	reads map[retry]secretReads
	// running counts the watches by namespace.
	running map[string]int
}

// note records the Secrets that an attempt used.
func (w *secretWatches) note(pull retry, reads secretReads) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads == nil {
		w.reads, w.running = map[retry]secretReads{}, map[string]int{}
	}
	w.reads[pull] = reads
}

func (w *secretWatches) forget(pull retry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reads, pull)
}

// begin watches the Secrets of a pull, and retries the pull when one of them changes. The returned function stops the watches.
func (w *secretWatches) begin(ctx context.Context, namespace string, pull retry) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for name, version := range w.reads[pull] {
		if w.watch == nil || w.running[namespace] == maxWatches {
			break
		}
		w.running[namespace]++
		group.Go(func() {
			w.watch(ctx, types.NamespacedName{Namespace: namespace, Name: name}, version, pull.ask)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.running[namespace]--; w.running[namespace] == 0 {
				delete(w.running, namespace)
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}
