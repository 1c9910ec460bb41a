package grants

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxReviews bounds how many questions one command asks the API server.
const maxReviews = 5_000

// reviewer is a Source that asks the API server about each rule: SubjectAccessReviews, or
// SelfSubjectAccessReviews where the user is the account.
type reviewer struct {
	client  client.Client
	subject rbac.Subject
	self    bool
	why     error
	asked   int
	unread  []string
}

func newReviewer(ctx context.Context, c client.Client, account types.NamespacedName, why error) (*reviewer, error) {
	r := &reviewer{client: c, subject: rbac.ServiceAccount(account.Namespace, account.Name), why: why}
	_, err := r.ask(ctx, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}})
	if err == nil {
		return r, nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, err
	}
	me := &authenticationv1.SelfSubjectReview{}
	if whoErr := c.Create(ctx, me); whoErr != nil {
		return nil, errors.Join(why, err, whoErr)
	}
	if me.Status.UserInfo.Username != r.subject.User {
		return nil, fmt.Errorf("%w; and as %q you may not ask the API server about others either: %w (be allowed one of the two, "+
			"or to impersonate the account, with --as=%s)", why, me.Status.UserInfo.Username, err, r.subject.User)
	}
	r.self = true
	return r, nil
}

// RulesOf reads one role. One that may not be read counts as not there: being allowed to bind it is
// enough, whatever is in it.
func (r *reviewer) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	var err error
	var rules []rbacv1.PolicyRule
	ctx, resource := context.Background(), "roles"
	if ref.Kind == "ClusterRole" {
		role := &rbacv1.ClusterRole{}
		err = r.client.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
		rules, resource = role.Rules, "clusterroles"
	} else {
		role := &rbacv1.Role{}
		err = r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		rules = role.Rules
	}
	if apierrors.IsForbidden(err) {
		r.unread = append(r.unread, ref.Kind+" "+ref.Name)
		return nil, apierrors.NewNotFound(rbacv1.Resource(resource), ref.Name)
	}
	return rules, err
}

// Holder asks about all that the needs name.
func (r *reviewer) Holder(ctx context.Context, needs []preflight.Need) (preflight.Holder, error) {
	held := map[string][]rbacv1.PolicyRule{}
	seen := map[string]bool{}
	for _, n := range needs {
		for _, rule := range append(append([]rbacv1.PolicyRule{}, n.Unless...), n.Rules...) {
			for _, atom := range validation.BreakdownRule(rule) {
				key := n.Namespace + " " + rbac.Line(atom)
				if seen[key] {
					continue
				}
				seen[key] = true
				ok, err := r.ask(ctx, question(n.Namespace, atom))
				if err != nil {
					return nil, err
				}
				if ok {
					held[n.Namespace] = append(held[n.Namespace], atom)
				}
			}
		}
	}
	return func(namespace string) ([]rbacv1.PolicyRule, error) { return held[namespace], nil }, nil
}

// question words a rule of one verb, resource and name as the request that it would allow.
func question(namespace string, atom rbacv1.PolicyRule) authorizationv1.SubjectAccessReviewSpec {
	if len(atom.NonResourceURLs) > 0 {
		return authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{
			Path: atom.NonResourceURLs[0], Verb: atom.Verbs[0],
		}}
	}
	resource, subresource, _ := strings.Cut(atom.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: atom.Verbs[0], Group: atom.APIGroups[0], Version: "*", Resource: resource, Subresource: subresource,
	}
	if len(atom.ResourceNames) > 0 {
		attributes.Name = atom.ResourceNames[0]
	}
	return authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes}
}

func (r *reviewer) ask(ctx context.Context, q authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	if r.asked++; r.asked > maxReviews {
		return false, fmt.Errorf("more than %d questions for the API server", maxReviews)
	}
	if r.self {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: q.ResourceAttributes, NonResourceAttributes: q.NonResourceAttributes,
		}}
		err := r.client.Create(ctx, review)
		return review.Status.Allowed, err
	}
	q.User, q.Groups = r.subject.User, r.subject.Groups
	review := &authorizationv1.SubjectAccessReview{ObjectMeta: metav1.ObjectMeta{}, Spec: q}
	err := r.client.Create(ctx, review)
	return review.Status.Allowed, err
}

// Notes implements Source.
func (r *reviewer) Notes() []string {
	kind := "SubjectAccessReviews"
	if r.self {
		kind = "SelfSubjectAccessReviews"
	}
	out := []string{fmt.Sprintf("%v: the API server was asked instead, by %d %s", r.why, r.asked, kind)}
	for _, role := range r.unread {
		out = append(out, fmt.Sprintf("%s may not be read: being allowed to bind it is what is asked for", role))
	}
	return out
}
