package grants

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// pageSize is the number of objects per list request.
const pageSize = 500

// Cluster determines the identity's permissions cluster-wide and in the given namespaces. It reads RBAC as the
// user of the client. If the user is not allowed to read RBAC, Cluster asks the API server about each rule instead. If
// this is not allowed either, it returns an error.
func Cluster(ctx context.Context, c client.Client, identity scoped.Identity, namespaces []string) (*Permissions, error) {
	s := newStore()
	unread := s.fill(ctx, c, namespaces)
	if unread != nil && !apierrors.IsForbidden(unread) {
		return nil, unread
	}
	r := Listed(s.listers(), identity)
	var askErr error
	r.Ask, askErr = reviewer(ctx, c, identity)
	switch {
	case askErr != nil && !errors.Is(askErr, errNotAllowedToAsk):
		return nil, askErr
	case askErr != nil && unread != nil:
		return nil, fmt.Errorf("%w; and %w", unread, askErr)
	case askErr != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("authorizers other than RBAC were not consulted: %v", askErr))
	case unread != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("the API server was asked about each rule, because RBAC could not be read: %v", unread))
		r.unread = unread
		r.In = func(namespace string) rbac.Permissions {
			return rbac.Permissions{Namespace: namespace, ReadErrors: []error{unread}}
		}
		r.RulesOf = rulesFrom(ctx, c)
	}
	return r, nil
}

// Read reads, as the user of the client, the RBAC that applies cluster-wide and in the namespaces, or in all
// namespaces if namespaces is nil.
func Read(ctx context.Context, c client.Client, namespaces []string) (rbac.Listers, error) {
	s := newStore()
	err := s.fill(ctx, c, namespaces)
	if err == nil && namespaces == nil {
		err = s.fillNamespace(ctx, c, metav1.NamespaceAll)
	}
	return s.listers(), err
}

// ReadBindings reads, as the user of the client, all bindings that can refer to a Role of the namespace or, for
// rbac.ClusterScope, to a ClusterRole.
func ReadBindings(ctx context.Context, c client.Client, namespace string) (rbac.Listers, error) {
	s := newStore()
	err := s.list(ctx, c, &rbacv1.RoleBindingList{}, namespace)
	if err == nil && namespace == rbac.ClusterScope {
		err = s.list(ctx, c, &rbacv1.ClusterRoleBindingList{}, rbac.ClusterScope)
	}
	return s.listers(), err
}

func (s store) fill(ctx context.Context, c client.Client, namespaces []string) error {
	if err := s.list(ctx, c, &rbacv1.ClusterRoleList{}, rbac.ClusterScope); err != nil {
		return err
	}
	if err := s.list(ctx, c, &rbacv1.ClusterRoleBindingList{}, rbac.ClusterScope); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if namespace == rbac.ClusterScope {
			continue
		}
		if err := s.fillNamespace(ctx, c, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (s store) fillNamespace(ctx context.Context, c client.Client, namespace string) error {
	if err := s.list(ctx, c, &rbacv1.RoleList{}, namespace); err != nil {
		return err
	}
	return s.list(ctx, c, &rbacv1.RoleBindingList{}, namespace)
}

// list reads all pages of one kind.
func (s store) list(ctx context.Context, c client.Client, list client.ObjectList, namespace string) error {
	for {
		options := &client.ListOptions{Namespace: namespace, Limit: pageSize, Continue: list.GetContinue()}
		if err := c.List(ctx, list, options); err != nil {
			return fmt.Errorf("read RBAC: %w", err)
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			index, err := s.indexerFor(obj)
			if err != nil {
				return err
			}
			return index.Add(obj.DeepCopyObject())
		})
		if err != nil || list.GetContinue() == "" {
			return err
		}
	}
}

// rulesFrom returns a function that reads a single role from the API server.
func rulesFrom(ctx context.Context, c client.Client) rbac.RoleRules {
	return func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		if ref.Kind == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
			return role.Rules, err
		}
		role := &rbacv1.Role{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		return role.Rules, err
	}
}

// errNotAllowedToAsk means that the user is not allowed to create SubjectAccessReviews for the identity.
var errNotAllowedToAsk = errors.New("you are not allowed to create SubjectAccessReviews for the identity of the install")

// reviewer returns a Reviewer that sends SubjectAccessReviews or, if the user is the identity itself,
// SelfSubjectAccessReviews, which every user is allowed to send.
func reviewer(ctx context.Context, c client.Client, identity scoped.Identity) (preflight.Reviewer, error) {
	subject := rbac.SubjectOf(identity)
	probe := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	ask := preflight.Reviews(c)
	_, err := ask(ctx, subject, identity.Account.Namespace, probe)
	if !apierrors.IsForbidden(err) {
		return ask, err
	}
	me := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, me); err != nil {
		return nil, fmt.Errorf("determine the current user: %w", err)
	}
	if me.Status.UserInfo.Username != subject.User {
		return nil, fmt.Errorf("%w: %w (use %s to run the command as this identity)", errNotAllowedToAsk, err, impersonation(identity))
	}
	return preflight.Reviews(&selfReviewer{Client: c}), nil
}

// impersonation returns the flags with which a command runs as the identity. For a ServiceAccount, the API server adds the
// groups.
func impersonation(identity scoped.Identity) string {
	flags := "--as=" + identity.Username()
	if identity.IsSynthetic() {
		flags += " --as-group=" + names.GroupExtensions
	}
	return flags
}

// selfReviewer sends SubjectAccessReviews as SelfSubjectAccessReviews.
type selfReviewer struct{ client.Client }

// Create implements client.Writer.
func (s *selfReviewer) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	review, ok := obj.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return s.Client.Create(ctx, obj, opts...)
	}
	own := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: review.Spec.ResourceAttributes, NonResourceAttributes: review.Spec.NonResourceAttributes,
	}}
	err := s.Client.Create(ctx, own, opts...)
	review.Status = own.Status
	return err
}
