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

// findNamespace waits until the namespace of the extension exists, and is one for which the author check of the spec can have
// examined whether its author is allowed to use the ServiceAccount.
func findNamespace(ctx context.Context, s *run) (outcome, error) {
	namespace, exists, err := s.readNamespace(ctx)
	switch {
	case err != nil:
		return outcome{}, err
	case !exists && s.identity.IsSynthetic():
		return waiting(message.Sprintf("namespace %q not found; create it, and the installation will continue", s.ext.Spec.Namespace)), nil
	case !exists:
		return waiting(message.Sprintf("namespace %q not found; create it before the ClusterExtension, or change the spec afterwards, because the author must be allowed to use its service account", s.ext.Spec.Namespace)), nil
	}
	isKnown := s.recordNamespace(namespace)
	switch {
	case namespace.DeletionTimestamp != nil:
		return waiting(message.Sprintf("namespace %q is being deleted", namespace.Name)), nil
	case !isKnown:
		return waiting(s.unusable.Text()), nil
	}
	return proceed(), nil
}

// stopRecreated stops a run whose ServiceAccount is in a namespace to which the author check did not apply.
func stopRecreated(ctx context.Context, s *run) (outcome, error) {
	namespace, exists, err := s.readNamespace(ctx)
	if err != nil || !exists || s.recordNamespace(namespace) {
		return proceed(), err
	}
	return waiting(s.unusable.Text()), nil
}

func (s *run) readNamespace(ctx context.Context) (namespace *corev1.Namespace, exists bool, err error) {
	namespace = &corev1.Namespace{}
	key := client.ObjectKey{Name: s.ext.Spec.Namespace}
	exists, err = apply.Read(ctx, s.Client, key, namespace)
	if err == nil && exists && s.isPerhapsStale() {
		exists, err = apply.Read(ctx, s.Live, key, namespace)
	}
	return namespace, exists, err
}

// isPerhapsStale reports whether the cache may still show an earlier namespace beside a new ServiceAccount.
func (s *run) isPerhapsStale() bool {
	if was := s.ext.Status.Namespace; was != nil {
		return was.ServiceAccountUID != string(s.identity.Account.UID)
	}
	return s.accountSince.After(s.ext.CreationTimestamp.Time)
}

// recordNamespace records the namespace in the status, with the first generation of the spec whose author check can have applied
// to it. It reports whether the current generation is one of these. A namespace that is found in place of another one, or that is
// newer than the extension, was perhaps created after the last change of the spec (docs/adr/0083).
func (s *run) recordNamespace(namespace *corev1.Namespace) bool {
	if s.identity.IsSynthetic() {
		s.ext.Status.Namespace = nil
		return true
	}
	checked := s.ext.Generation
	if s.ext.DeletionTimestamp != nil {
		checked-- // the API server has incremented it for the deletion
	}
	now := olmv1.NamespaceRecord{Generation: checked, UID: string(namespace.UID), ServiceAccountUID: string(s.identity.Account.UID)}
	switch was := s.ext.Status.Namespace; {
	case was != nil && was.UID == now.UID:
		now.Generation = was.Generation
	case was != nil || namespace.CreationTimestamp.After(s.ext.CreationTimestamp.Time):
		now.Generation++
	}
	s.ext.Status.Namespace = &now
	if now.Generation <= checked {
		return true
	}
	s.unusable = &scoped.Error{Reason: scoped.NamespaceRecreated, Namespace: namespace.Name, Message: fmt.Sprintf(
		"namespace %q was created, or deleted and created again, after the ClusterExtension was written. Whether its author is allowed to use the service account %q of this namespace was not checked; "+
			"to install into the namespace, change the spec, or create the ClusterExtension again", namespace.Name, s.identity.Account.Name)}
	s.recreated = true
	return false
}

// clientOf returns a client that acts as the identity, or a *scoped.Error if it cannot be used.
func (s *run) clientOf(ctx context.Context, identity scoped.Identity) (client.Client, error) {
	if s.recreated {
		return nil, s.unusable
	}
	return s.Reconciler.clientOf(ctx, identity)
}
