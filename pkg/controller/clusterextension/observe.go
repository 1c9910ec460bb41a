package clusterextension

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// unseenFor is how long a watch is expected to take to report a new object.
const unseenFor = 5 * time.Second

// isDesired reports whether an object is unchanged since it was last in the desired state, or its restoration is
// paused. It does not detect changes to objects that are not watched.
func (s *run) isDesired(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	is := s.pass.marks[apply.Describe(obj)]
	if is == nil || is.desired != s.hashes[obj] {
		return false, nil
	}
	live, known, err := s.observe(ctx, obj)
	switch {
	case err != nil || !known:
		return true, err
	case live != nil && is.matches(live, obj, s):
		return true, nil
	}
	switch since := s.Clock.Since(is.at); {
	case live == nil && !is.seen && since < unseenFor:
		s.wakeAfter(unseenFor - since)
	case since < is.pause:
		s.wakeAfter(is.pause - since)
		s.addPaused(obj)
	default:
		return false, nil
	}
	return true, nil
}

// addPaused records an object whose restoration is paused.
func (s *run) addPaused(obj *unstructured.Unstructured) {
	if name := apply.Describe(obj); !slices.Contains(s.paused, name) {
		s.paused = append(s.paused, name)
	}
}

// aboutPaused describes the objects whose restoration is paused, or returns "" if there are none.
func (s *run) aboutPaused() string {
	if len(s.paused) == 0 {
		return ""
	}
	return "other clients repeatedly change or delete these objects, which are restored at increasing intervals: " + bundle.Named(s.paused)
}

// matches reports whether a live object is in the state of the mark, or has only changes that need no restoration, such
// as to its status.
func (m *mark) matches(live client.Object, desired *unstructured.Unstructured, s *run) bool {
	if live.GetUID() != m.uid {
		return versionOf(live) <= m.version // the watch has not reported the new object yet
	}
	if m.seen = m.seen || versionOf(live) >= m.version; versionOf(live) <= m.version {
		return live.GetDeletionTimestamp() == nil
	}
	if m.generation == 0 || live.GetGeneration() != m.generation || live.GetDeletionTimestamp() != nil || !hasMetadata(live, desired) || !s.owner.Owns(live) {
		return false
	}
	m.version = versionOf(live)
	return true
}

// hasMetadata reports whether a live object has the labels, annotations and owner references of the desired one.
func hasMetadata(live client.Object, desired *unstructured.Unstructured) bool {
	contains := func(have, want map[string]string) bool {
		for k, v := range want {
			if value, ok := have[k]; !ok || value != v {
				return false
			}
		}
		return true
	}
	return contains(live.GetLabels(), desired.GetLabels()) && contains(live.GetAnnotations(), desired.GetAnnotations()) &&
		!lacksOwner(live, desired)
}

// observe returns an object from a cache, or nil if it does not exist. known is false if the object is not watched.
func (s *run) observe(ctx context.Context, obj *unstructured.Unstructured) (live client.Object, known bool, err error) {
	typed := watchedByController(obj)
	if typed == nil {
		live, known = s.watches.get(ctx, s.ext.Name, obj)
		return live, known, nil
	}
	exists, err := apply.Read(ctx, s.Client, client.ObjectKeyFromObject(obj), typed)
	if err != nil || !exists {
		return nil, true, err
	}
	return typed, true, nil
}

// watchedByController returns an empty object of a kind that the controller identity watches, or nil for other kinds.
func watchedByController(obj *unstructured.Unstructured) client.Object {
	switch obj.GroupVersionKind().GroupKind().String() {
	case "ServiceAccount":
		return &corev1.ServiceAccount{}
	case "CustomResourceDefinition." + apiextensionsv1.GroupName:
		return &apiextensionsv1.CustomResourceDefinition{}
	case "APIService." + apiregistrationv1.SchemeGroupVersion.Group:
		return &apiregistrationv1.APIService{}
	case "Role." + rbacv1.GroupName:
		return &rbacv1.Role{}
	case "RoleBinding." + rbacv1.GroupName:
		return &rbacv1.RoleBinding{}
	case "ClusterRole." + rbacv1.GroupName:
		return &rbacv1.ClusterRole{}
	case "ClusterRoleBinding." + rbacv1.GroupName:
		return &rbacv1.ClusterRoleBinding{}
	}
	return nil
}
