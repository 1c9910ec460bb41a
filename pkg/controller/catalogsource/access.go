package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
