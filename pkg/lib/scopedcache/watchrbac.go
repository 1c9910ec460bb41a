package scopedcache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hintDelays contains the delays between a change to RBAC and the rechecks. The first delay may be too short, because the API
// server's authorizer uses a cache.
var hintDelays = []time.Duration{200 * time.Millisecond, 1500 * time.Millisecond}

// rbacWatcher rechecks the watches in a namespace when roles or bindings of the cache's identity change there.
type rbacWatcher struct {
	inner   *Cache
	recheck func(namespace string)

	user   string
	groups []string

	mu sync.Mutex
	// bound contains the namespaces in which a role is bound to the identity, with the number of bindings. "" stands for all
	// namespaces.
	bound map[roleKey]map[string]int
	// pending contains the scheduled rechecks.
	pending map[pendingHint]bool
	over    bool
}

type roleKey struct{ kind, namespace, name string }

type pendingHint struct {
	namespace string
	delay     time.Duration
}

func newRBACWatcher(config *rest.Config, recheck func(string)) (*rbacWatcher, error) {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := authenticationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	inner, err := New(config, Options{Scheme: scheme, RecheckPeriod: -1})
	if err != nil {
		return nil, err
	}
	return &rbacWatcher{inner: inner, recheck: recheck, bound: map[roleKey]map[string]int{}, pending: map[pendingHint]bool{}}, nil
}

// run watches RBAC until the context ends. Watches that the identity is not allowed to open are retried like all
// others.
func (w *rbacWatcher) run(ctx context.Context) error {
	review := &authenticationv1.SelfSubjectReview{}
	for tries := 0; ; tries++ {
		err := w.inner.live.Create(ctx, review)
		if err == nil {
			break
		}
		w.inner.log.V(1).Info("Failed to determine the cache's own user; retrying", "reason", err.Error())
		select {
		case <-ctx.Done():
			return fmt.Errorf("determine the cache's own user: %w", err)
		case <-time.After(w.inner.options.Retry.after(tries)):
		}
		review = &authenticationv1.SelfSubjectReview{}
	}
	w.user, w.groups = review.Status.UserInfo.Username, review.Status.UserInfo.Groups
	for _, obj := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.ClusterRole{}} {
		if _, err := w.inner.claim(builtIn("rbac"), Claim{Kind: obj, Scope: Cluster()}); err != nil {
			return err
		}
		informer, err := w.inner.GetInformer(ctx, obj)
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(added any) { w.changed(nil, added.(client.Object)) },
			UpdateFunc: func(before, after any) { w.changed(before.(client.Object), after.(client.Object)) },
			DeleteFunc: func(deleted any) { w.changed(deleted.(client.Object), nil) },
		}); err != nil {
			return err
		}
	}
	w.inner.events.subscribe(&subscriber{notify: w.caughtUp()})
	err := w.inner.Start(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return err
}

// caughtUp returns a function that rechecks all namespaces when a watch of RBAC is Live again, because the watch may have
// missed changes.
func (w *rbacWatcher) caughtUp() func(OwnerRef, ClaimStatus) {
	missed := map[string]bool{}
	return func(_ OwnerRef, status ClaimStatus) {
		kind := fmt.Sprintf("%T", status.Claim.Kind)
		if status.State == Live && missed[kind] {
			w.mu.Lock()
			w.hint("")
			w.mu.Unlock()
		}
		missed[kind] = status.State != Live
	}
}

// changed is called for each change to a role or binding.
func (w *rbacWatcher) changed(before, after client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch subject := firstOf(after, before).(type) {
	case *rbacv1.Role:
		if old, ok := before.(*rbacv1.Role); ok && after != nil && equalRules(old.Rules, subject.Rules) {
			return
		}
		w.hintRole(roleKey{"Role", subject.Namespace, subject.Name})
	case *rbacv1.ClusterRole:
		if old, ok := before.(*rbacv1.ClusterRole); ok && after != nil && equalRules(old.Rules, subject.Rules) {
			return
		}
		w.hintRole(roleKey{"ClusterRole", "", subject.Name})
	default:
		was, is := w.binding(before), w.binding(after)
		if was == is {
			return
		}
		w.count(was, -1)
		w.count(is, 1)
	}
}

// equalRules compares rules without reflection, which takes 50 times as long: a tenant may change the labels of a role with 10,000 rules.
func equalRules(a, b []rbacv1.PolicyRule) bool {
	return slices.EqualFunc(a, b, func(x, y rbacv1.PolicyRule) bool {
		return slices.Equal(x.Verbs, y.Verbs) && slices.Equal(x.APIGroups, y.APIGroups) && slices.Equal(x.Resources, y.Resources) &&
			slices.Equal(x.ResourceNames, y.ResourceNames) && slices.Equal(x.NonResourceURLs, y.NonResourceURLs)
	})
}

// boundRole is a role that is bound to the identity in a namespace. The zero value means that no role is bound.
type boundRole struct {
	role      roleKey
	namespace string
}

func firstOf(a, b client.Object) client.Object {
	if a != nil {
		return a
	}
	return b
}

// binding returns the role that a binding grants to the identity.
func (w *rbacWatcher) binding(obj client.Object) boundRole {
	var ref rbacv1.RoleRef
	var subjects []rbacv1.Subject
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		ref, subjects = b.RoleRef, b.Subjects
	case *rbacv1.ClusterRoleBinding:
		ref, subjects = b.RoleRef, b.Subjects
	default:
		return boundRole{}
	}
	if !slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return w.names(s, obj.GetNamespace()) }) {
		return boundRole{}
	}
	out := boundRole{role: roleKey{kind: ref.Kind, name: ref.Name}, namespace: obj.GetNamespace()}
	if ref.Kind == "Role" {
		out.role.namespace = obj.GetNamespace()
	}
	return out
}

// names reports whether a subject is the identity or one of its groups.
func (w *rbacWatcher) names(s rbacv1.Subject, namespace string) bool {
	switch s.Kind {
	case rbacv1.UserKind:
		return s.Name == w.user
	case rbacv1.GroupKind:
		return slices.Contains(w.groups, s.Name)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return serviceaccount.MakeUsername(namespace, s.Name) == w.user
	}
	return false
}

func (w *rbacWatcher) count(b boundRole, by int) {
	if b == (boundRole{}) {
		return
	}
	if w.bound[b.role] == nil {
		w.bound[b.role] = map[string]int{}
	}
	w.bound[b.role][b.namespace] += by
	if w.bound[b.role][b.namespace] <= 0 {
		delete(w.bound[b.role], b.namespace)
	}
	w.hint(b.namespace)
}

func (w *rbacWatcher) hintRole(role roleKey) {
	for namespace := range w.bound[role] {
		w.hint(namespace)
	}
}

// hint schedules rechecks of a namespace, unless they are already scheduled. The caller holds the mutex.
func (w *rbacWatcher) hint(namespace string) {
	for _, delay := range hintDelays {
		p := pendingHint{namespace, delay}
		if w.pending[p] {
			continue
		}
		w.pending[p] = true
		time.AfterFunc(delay, func() {
			w.mu.Lock()
			delete(w.pending, p)
			over := w.over
			w.mu.Unlock()
			if !over {
				w.recheck(namespace)
			}
		})
	}
}
