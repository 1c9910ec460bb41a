package scoped

import (
	"context"
	"fmt"
	"maps"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Concerned lists the OperatorGroups whose account or targets are affected by a change to a ServiceAccount or a Namespace.
// Relevant changes are that the account is created or deleted, that the OperatorGroup's namespace or a listed one is created or
// deleted, and that a selector starts or stops matching a Namespace. Objects of other kinds affect no OperatorGroup. before is
// nil if the object was created; after is nil if it was deleted. The Lookup should use a cache. The caller must not modify the
// OperatorGroups.
func (l Lookup) Concerned(ctx context.Context, before, after client.Object) ([]operatorsv1.OperatorGroup, error) {
	obj := after
	if obj == nil {
		obj = before
	}
	switch obj.(type) {
	case *corev1.ServiceAccount:
		if before != nil && after != nil {
			return nil, nil
		}
		return l.boundedBy(ctx, client.ObjectKeyFromObject(obj))
	case *corev1.Namespace:
		old, _ := before.(*corev1.Namespace)
		current, _ := after.(*corev1.Namespace)
		return l.targeting(ctx, obj.GetName(), old, current)
	}
	return nil, nil
}

// OnePerNamespace keeps the first OperatorGroup of each namespace. A namespace can contain thousands, although Remit installs nothing
// then, so event handlers handle the objects of a namespace once, and not once for each OperatorGroup.
func OnePerNamespace(groups []operatorsv1.OperatorGroup) []operatorsv1.OperatorGroup {
	seen := map[string]bool{}
	return slices.DeleteFunc(groups, func(og operatorsv1.OperatorGroup) bool {
		was := seen[og.Namespace]
		seen[og.Namespace] = true
		return was
	})
}

// boundedBy lists the OperatorGroups whose account is the ServiceAccount, whether or not the ServiceAccount exists.
func (l Lookup) boundedBy(ctx context.Context, account types.NamespacedName) ([]operatorsv1.OperatorGroup, error) {
	named := func(og *operatorsv1.OperatorGroup) bool {
		key, _ := l.Default.accountOf(og)
		return key == account
	}
	if account == l.Default.Account {
		return l.groups(ctx, named)
	}
	return l.groups(ctx, named, client.InNamespace(account.Namespace))
}

func (l Lookup) targeting(ctx context.Context, name string, before, after *corev1.Namespace) ([]operatorsv1.OperatorGroup, error) {
	if alive(before) == alive(after) && (!alive(before) || maps.Equal(before.Labels, after.Labels)) {
		return nil, nil // selectors can be long
	}
	return l.groups(ctx, func(og *operatorsv1.OperatorGroup) bool {
		if alive(before) != alive(after) && (name == og.Namespace || slices.Contains(og.Spec.TargetNamespaces, name)) {
			return true
		}
		return len(og.Spec.TargetNamespaces) == 0 && selects(og, before) != selects(og, after)
	})
}

// alive reports whether a Namespace exists and is not being deleted.
func alive(namespace *corev1.Namespace) bool {
	return namespace != nil && namespace.DeletionTimestamp == nil
}

// selects reports whether the OperatorGroup has a selector that matches the Namespace.
func selects(og *operatorsv1.OperatorGroup, namespace *corev1.Namespace) bool {
	if !alive(namespace) || og.Spec.Selector == nil || isEmptySelector(og.Spec.Selector) {
		return false
	}
	selector, err := Selector(og)
	return err == nil && selector.Matches(labels.Set(namespace.Labels))
}

func (l Lookup) groups(ctx context.Context, match func(*operatorsv1.OperatorGroup) bool, opts ...client.ListOption) ([]operatorsv1.OperatorGroup, error) {
	list := &operatorsv1.OperatorGroupList{}
	if err := l.Reader.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list OperatorGroups: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(og operatorsv1.OperatorGroup) bool { return !match(&og) }), nil
}
