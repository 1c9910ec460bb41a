package execute

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Limits for the RoleBindings of a namespace that are examined before a Role gets its rules.
const (
	// maxBindings bounds how many are listed, and maxInTarget those of a target other than the operator's own namespace, where users
	// can create as many as they like. The lists of one Role then take at most 3 × maxInTarget / pageSize requests.
	maxBindings = 10_000
	maxInTarget = 1_000
	// maxUnseen bounds how many may be missing or outdated in the cache. maxUnseenFew is for a Role that was not sealed as a whole: each
	// one is read with a request of its own, so that users of a target could make the time longer in which the Role can be bound.
	maxUnseen, maxUnseenFew = 100, 5
	// pageSize is the number of objects in memory at a time. An object can have 1.5 MiB, and its metadata almost as much.
	pageSize = 25
	// crowded is the number of RoleBindings from which a target is written after the others.
	crowded = 4 * pageSize
)

// Checked contains the namespaces of whose RoleBindings the cache has contained all, according to a list: those need not be listed again
// before a further Role is sealed. They are listed after each Role has been sealed, and after it has its rules. It is safe for
// concurrent use.
type Checked struct {
	mu         sync.Mutex
	namespaces map[string]bool
}

func (c *Checked) has(namespace string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespaces[namespace]
}

func (c *Checked) add(namespace string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.namespaces == nil {
		c.namespaces = map[string]bool{}
	}
	c.namespaces[namespace] = true
}

// CrowdedLast returns the objects in the same order, except that those in targets with many RoleBindings are last: their Roles take longer.
func (r Roles) CrowdedLast(objs []*unstructured.Unstructured) []*unstructured.Unstructured {
	if !r.RBAC.Readable() {
		return objs
	}
	isCrowded := map[string]bool{}
	var out, last []*unstructured.Unstructured
	for _, obj := range objs {
		if !IsForTarget(obj, r.Owner) {
			out = append(out, obj)
			continue
		}
		namespace := obj.GetNamespace()
		if _, known := isCrowded[namespace]; !known {
			isCrowded[namespace] = r.countCached(namespace) > crowded
		}
		if isCrowded[namespace] {
			last = append(last, obj)
			continue
		}
		out = append(out, obj)
	}
	return slices.Concat(out, last)
}

// countCached returns the number of RoleBindings of a namespace in the cache.
func (r Roles) countCached(namespace string) int {
	bindings, err := r.RBAC.Untracked().RoleBindings.RoleBindings(namespace).List(labels.Everything())
	if err != nil {
		return 0
	}
	return len(bindings)
}

// judgeBefore is judgeLive before the Role is sealed. It uses an earlier list if there is one, because its only purpose is that a Role
// that must not get its rules is not sealed either.
func (r Roles) judgeBefore(ctx context.Context, live, role *unstructured.Unstructured) error {
	if r.Checked.has(role.GetNamespace()) {
		return r.CheckBindings(ctx, live, role)
	}
	return r.judgeLive(ctx, live, role)
}

// judgeUnseen judges the bindings of a Role that are missing or outdated in the cache.
func (r Roles) judgeUnseen(ctx context.Context, role *unstructured.Unstructured) error {
	unseen, err := r.unseen(ctx, role)
	if err != nil {
		return err
	}
	return r.judgeAll(ctx, role, unseen)
}

// unseen returns the RoleBindings of the namespace of a Role that are missing or outdated in the cache, or a DelayedError if there are
// too many. If the Role is for a target, it also returns a DelayedError if they cannot be listed, which affects only the target.
func (r Roles) unseen(ctx context.Context, role *unstructured.Unstructured) ([]*rbacv1.RoleBinding, error) {
	namespace, limit := role.GetNamespace(), maxBindings
	isForTarget := IsForTarget(role, r.Owner)
	if isForTarget {
		limit = maxInTarget
		if r.few {
			limit = crowded
		}
		if r.countCached(namespace) > limit {
			return nil, tooMany(namespace, limit)
		}
	}
	out, err := r.listUnseen(ctx, namespace, limit)
	if _, delayed := errors.AsType[*apply.DelayedError](err); err != nil && !delayed && isForTarget && !errors.Is(ctx.Err(), context.Canceled) {
		return nil, &apply.DelayedError{Why: withoutURL(err).Error()}
	}
	if err == nil && len(out) == 0 {
		r.Checked.add(namespace)
	}
	return out, err
}

func tooMany(namespace string, limit int) error {
	return &apply.DelayedError{Why: fmt.Sprintf("cannot check all RoleBindings in namespace %q: there are more than %d, or they change too fast", namespace, limit)}
}

// withoutURL returns equal errors for repeated failures: the URL of a page is different each time.
func withoutURL(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("list RoleBindings: %w", request.Err)
	}
	return err
}

func (r Roles) listUnseen(ctx context.Context, namespace string, limit int) ([]*rbacv1.RoleBinding, error) {
	var out []*rbacv1.RoleBinding
	unseen := maxUnseen
	if r.few {
		unseen = maxUnseenFew
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("RoleBindingList"))
	for read := 0; read == 0 || list.Continue != ""; read += pageSize {
		if read >= limit {
			return nil, tooMany(namespace, limit)
		}
		if err := r.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("list RoleBindings in namespace %q: %w", namespace, err)
		}
		found, err := r.readUnseen(ctx, list.Items, unseen-len(out))
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > unseen {
			return nil, tooMany(namespace, limit)
		}
	}
	return out, nil
}

// readUnseen reads those RoleBindings of a page that are missing or outdated in the cache: at most one more than there may be.
func (r Roles) readUnseen(ctx context.Context, page []metav1.PartialObjectMetadata, limit int) ([]*rbacv1.RoleBinding, error) {
	var out []*rbacv1.RoleBinding
	for i := range page {
		if len(out) > limit {
			break
		}
		item := &page[i]
		cached, err := r.RBAC.Untracked().RoleBindings.RoleBindings(item.Namespace).Get(item.Name)
		if err == nil && cached.UID == item.UID && cached.ResourceVersion == item.ResourceVersion {
			continue
		}
		b := &rbacv1.RoleBinding{}
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(item), b)
		if apierrors.IsNotFound(err) {
			continue // the binding has been deleted since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("get RoleBinding %s: %w", client.ObjectKeyFromObject(item), err)
		}
		b.ManagedFields = nil // users can make them large
		out = append(out, b)
	}
	return out, nil
}
