package clusterextension

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// findNamespace waits until the namespace of the extension exists, and is the one for which the author of the spec was allowed to use
// the ServiceAccount.
func findNamespace(ctx context.Context, s *run) (outcome, error) {
	namespace := &corev1.Namespace{}
	key := client.ObjectKey{Name: s.ext.Spec.Namespace}
	exists, err := apply.Read(ctx, s.Client, key, namespace)
	if is := s.ext.Status.Namespace; err == nil && exists && is != nil && is.ServiceAccountUID != string(s.identity.Account.UID) {
		exists, err = apply.Read(ctx, s.Live, key, namespace) // the cache may still show an earlier namespace beside a new ServiceAccount
	}
	switch {
	case err != nil:
		return outcome{}, err
	case !exists:
		return waiting(message.Sprintf("namespace %q not found; create it, and the installation will continue", s.ext.Spec.Namespace)), nil
	case namespace.DeletionTimestamp != nil:
		return waiting(message.Sprintf("namespace %q is being deleted", s.ext.Spec.Namespace)), nil
	}
	return s.recordNamespace(namespace)
}

// recordNamespace records the namespace in the status. It stops the run if the record shows that the namespace was deleted and created
// again after the spec was changed: the author check did not apply to the ServiceAccount of the new one (docs/adr/0083).
func (s *run) recordNamespace(namespace *corev1.Namespace) (outcome, error) {
	if s.identity.IsSynthetic() {
		s.ext.Status.Namespace = nil
		return proceed(), nil
	}
	now := olmv1.NamespaceRecord{Generation: s.ext.Generation, UID: string(namespace.UID), ServiceAccountUID: string(s.identity.Account.UID)}
	if was := s.ext.Status.Namespace; was != nil && was.Generation == now.Generation && was.UID != now.UID {
		s.unusable = &scoped.Error{Reason: scoped.NamespaceRecreated, Namespace: namespace.Name, Message: fmt.Sprintf(
			"namespace %q was deleted and created again. Its service account %q is another one, which the author of the ClusterExtension may not be allowed to use; "+
				"to install into the namespace, change the spec, or create the ClusterExtension again", namespace.Name, s.identity.Account.Name)}
		s.recreated = true
		return waiting(s.unusable.Text()), nil
	}
	s.ext.Status.Namespace = &now
	return proceed(), nil
}

// clientOf returns a client that acts as the identity, or a *scoped.Error if it cannot be used.
func (s *run) clientOf(ctx context.Context, identity scoped.Identity) (client.Client, error) {
	if s.recreated {
		return nil, s.unusable
	}
	return s.Reconciler.clientOf(ctx, identity)
}
