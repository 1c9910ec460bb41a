package scopedcache

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Scope is the part of the cluster in which a kind is watched: the whole cluster, a namespace, or one object. Use Cluster,
// Namespace or Object to create one. Scopes are comparable.
type Scope struct {
	namespace string
	name      string
	object    bool
}

// Cluster returns the scope of all objects of a kind.
func Cluster() Scope { return Scope{} }

// Namespace returns the scope of all objects of a kind in a namespace.
func Namespace(namespace string) Scope { return Scope{namespace: namespace} }

// Object returns the scope of one object. The namespace of a cluster-scoped object is "".
func Object(namespace, name string) Scope {
	return Scope{namespace: namespace, name: name, object: true}
}

// Covers reports whether every object of the other scope is also in this one.
func (s Scope) Covers(other Scope) bool {
	switch {
	case s.object:
		return s == other
	case s.namespace != "":
		return s.namespace == other.namespace
	}
	return true
}

// String returns "the cluster", "namespace x", or "object x/y".
func (s Scope) String() string {
	switch {
	case s.object && s.namespace == "":
		return "object " + s.name
	case s.object:
		return "object " + s.namespace + "/" + s.name
	case s.namespace != "":
		return "namespace " + s.namespace
	}
	return "the cluster"
}

// level returns the value of the level label in metrics.
func (s Scope) level() string {
	switch {
	case s.object:
		return "object"
	case s.namespace != "":
		return "namespace"
	}
	return "cluster"
}

// key returns the index key of the object. Call it only for the scope of an object.
func (s Scope) key() string {
	if s.namespace == "" {
		return s.name
	}
	return s.namespace + "/" + s.name
}

// checkPath returns an error if the namespace or the name cannot be part of a request's path. Without this check, a claim
// for the namespace ".." would watch the whole cluster.
func (s Scope) checkPath() error {
	var wrong []string
	if s.namespace != "" {
		wrong = validation.IsDNS1123Label(s.namespace)
	}
	switch {
	case s.object && s.name == "":
		wrong = append(wrong, "the object has no name")
	case s.object:
		wrong = append(wrong, content.IsPathSegmentName(s.name)...)
	}
	if len(wrong) > 0 {
		return &scopeError{fmt.Sprintf("the scope %q is not valid: %s", s, strings.Join(wrong, "; "))}
	}
	return nil
}

// A Claim makes the cache watch the objects of a kind in a scope.
type Claim struct {
	// Kind is an object of the kind. Its Go type determines how the objects are stored: typed, as
	// *unstructured.Unstructured, or as *metav1.PartialObjectMetadata. Each representation has its own watches.
	Kind client.Object
	// Scope is the part of the cluster to watch.
	Scope Scope
}

// OwnerRef identifies the object on whose behalf a claim is made, usually the custom resource that is reconciled.
type OwnerRef struct {
	GVK schema.GroupVersionKind
	Key types.NamespacedName
	// UID distinguishes the object from an earlier or later one with the same name.
	UID types.UID
}

// OwnerOf returns a reference to an object. It returns an error if the object has no UID, or if its kind is not in
// the scheme.
func OwnerOf(obj client.Object, scheme *runtime.Scheme) (OwnerRef, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return OwnerRef{}, fmt.Errorf("determine the owner's kind: %w", err)
	}
	if obj.GetUID() == "" {
		return OwnerRef{}, errors.New("the owner has no UID: only objects that were read from the cluster can own claims")
	}
	return OwnerRef{GVK: gvk, Key: client.ObjectKeyFromObject(obj), UID: obj.GetUID()}, nil
}
