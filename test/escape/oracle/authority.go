package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ownNamespace is the oracle's namespace. No account is granted permissions in it.
	ownNamespace = "remit-oracle"
	// probe is the name of the roles that the oracle creates as dry runs. Members of the group probers are allowed to
	// create them.
	probe   = "remit-oracle-probe"
	probers = "remit-oracle"
	// clusterScope is the scope of the whole cluster; all other scopes are names of namespaces.
	clusterScope = ""
	// refusal precedes the list of missing rules in the API server's error message.
	refusal = "not currently held:"
)

// authority asks the API server which permissions an identity has and which rules exceed them. It does not use Remit's
// code.
type authority struct {
	rest   rest.Interface
	client client.Client
}

// identity is a user that the administrator impersonates.
type identity struct {
	user   string
	groups []string
}

func serviceAccount(key types.NamespacedName) identity {
	return identity{
		user:   "system:serviceaccount:" + key.Namespace + ":" + key.Name,
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + key.Namespace},
	}
}

// syntheticUser returns the user that installs a ClusterExtension without a ServiceAccount.
func syntheticUser(extension string) identity {
	return identity{user: extensionPrefix + extension, groups: []string{"olm:clusterextensions"}}
}

// newAuthority returns an authority. It creates the RBAC that lets members of the group probers create roles,
// regardless of their other permissions.
func newAuthority(ctx context.Context, r rest.Interface, c client.Client) (*authority, error) {
	meta := metav1.ObjectMeta{Name: probers}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName},
			Resources: []string{"roles", "clusterroles"}, ResourceNames: []string{probe}, Verbs: []string{"create", "patch"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: probers},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: probers}}},
	} {
		if err := c.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	return &authority{rest: r, client: c}, nil
}

func (a *authority) request(r *rest.Request, who identity) *rest.Request {
	return r.SetHeader("Impersonate-User", who.user).SetHeader("Impersonate-Group", who.groups...).SetHeader("Accept", "application/json")
}

// rules returns the effective rules of a subject in a scope, as the API server resolves them.
func (a *authority) rules(ctx context.Context, who identity, scope string) ([]rbacv1.PolicyRule, error) {
	namespace := scope
	if scope == clusterScope {
		namespace = ownNamespace
	}
	question, err := json.Marshal(authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectRulesReview"},
		Spec:     authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	})
	if err != nil {
		return nil, err
	}
	body, err := a.request(a.rest.Post().AbsPath("apis/authorization.k8s.io/v1/selfsubjectrulesreviews"), who).
		SetHeader("Content-Type", "application/json").Body(question).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("rules of %s in %q: %w", who.user, scope, err)
	}
	var answer authorizationv1.SelfSubjectRulesReview
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	if answer.Status.Incomplete {
		return nil, fmt.Errorf("rules of %s in %q are incomplete: %s", who.user, scope, answer.Status.EvaluationError)
	}
	var out []rbacv1.PolicyRule
	for _, r := range answer.Status.ResourceRules {
		out = append(out, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	for _, r := range answer.Status.NonResourceRules {
		out = append(out, rbacv1.PolicyRule{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
	}
	return out, nil
}

// beyond returns the rules that an identity does not have in a scope. The API server determines them when the identity
// creates a role with the rules, as a dry run.
func (a *authority) beyond(ctx context.Context, bound identity, scope string, rules []rbacv1.PolicyRule) ([]string, error) {
	kind, path := "ClusterRole", []string{"apis", rbacv1.GroupName, "v1", "clusterroles", probe}
	if scope != clusterScope {
		kind, path = "Role", []string{"apis", rbacv1.GroupName, "v1", "namespaces", scope, "roles", probe}
		rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
	}
	if len(rules) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": probe}, "rules": rules})
	if err != nil {
		return nil, err
	}
	bound.groups = append(slices.Clone(bound.groups), probers)
	answer, err := a.request(a.rest.Patch(types.ApplyPatchType).AbsPath(path...), bound).
		Param("dryRun", "All").Param("fieldManager", probe).Body(body).DoRaw(ctx)
	if err == nil {
		return nil, nil
	}
	var status metav1.Status
	_ = json.Unmarshal(answer, &status) // a response that is not a Status leaves the message empty
	_, missing, found := strings.Cut(status.Message, refusal)
	if !found || !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("dry run of a %s as %s in %q: %w: %s", kind, bound.user, scope, err, status.Message)
	}
	return strings.FieldsFunc(missing, func(r rune) bool { return r == '\n' }), nil
}

// createUser creates a user with the given rules cluster-wide and in the oracle's own namespace, and waits until the
// API server has observed them. It also returns a function that deletes the user's RBAC. The choice of the namespace
// does not matter, because rules do not depend on it.
func (a *authority) createUser(ctx context.Context, name string, cluster, own []rbacv1.PolicyRule) (identity, func(), error) {
	subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
	wide, narrow := metav1.ObjectMeta{Name: name}, metav1.ObjectMeta{Namespace: ownNamespace, Name: name}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: wide, Rules: cluster},
		&rbacv1.ClusterRoleBinding{ObjectMeta: wide, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subject},
		&rbacv1.Role{ObjectMeta: narrow, Rules: own},
		&rbacv1.RoleBinding{ObjectMeta: narrow, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subject},
	}
	remove := func() {
		for _, obj := range objects {
			_ = a.client.Delete(context.WithoutCancel(ctx), obj)
		}
	}
	for _, obj := range objects {
		if err := a.client.Create(ctx, obj); err != nil {
			remove()
			return identity{}, nil, err
		}
	}
	who := identity{user: name}
	err := wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		for scope, rules := range map[string][]rbacv1.PolicyRule{clusterScope: cluster, ownNamespace: own} {
			if missing, err := a.beyond(ctx, who, scope, rules); err != nil || len(missing) > 0 {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		remove()
		return identity{}, nil, err
	}
	return who, remove, nil
}
