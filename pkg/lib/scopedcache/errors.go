package scopedcache

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NotCoveredError means that no claim covers a read. It wraps controller-runtime's *cache.ErrResourceNotCached.
type NotCoveredError struct {
	GVK   schema.GroupVersionKind
	Scope Scope
}

func (e *NotCoveredError) Error() string {
	return fmt.Sprintf("%s in %s is not cached: no claim covers it", e.GVK.GroupKind(), e.Scope)
}

// Unwrap returns a *cache.ErrResourceNotCached.
func (e *NotCoveredError) Unwrap() error { return &cache.ErrResourceNotCached{GVK: e.GVK} }

// DeniedError means that the cache's identity is not allowed to list or watch a kind in a scope. apierrors.IsForbidden
// returns true for it.
type DeniedError struct {
	Resource schema.GroupVersionResource
	Scope    Scope
	// Missing are the verbs that the server refused: "list", "watch", or both.
	Missing []string
	// Err is the server's error, which names the user.
	Err error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("cannot %s %s in %s: %v", strings.Join(e.Missing, " and "), e.Resource.GroupResource(), e.Scope, e.Err)
}

// Unwrap returns the server's error.
func (e *DeniedError) Unwrap() error { return e.Err }

// Status returns a Forbidden status with the message of the error.
func (e *DeniedError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: e.Error(),
		Details: &metav1.StatusDetails{Group: e.Resource.Group, Kind: e.Resource.Resource, Name: e.Scope.name},
	}
}

// AbsentError means that the API server does not serve a kind, for example because its CustomResourceDefinition is not
// installed. Reads succeed once the kind is served. meta.IsNoMatchError returns true for it.
type AbsentError struct {
	GVK schema.GroupVersionKind
	Err error
}

// absent returns an AbsentError. The AbsentError does not wrap a NotFound error, which would mean that an object does
// not exist.
func absent(gvk schema.GroupVersionKind, cause error) *AbsentError {
	if apierrors.IsNotFound(cause) {
		cause = &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	return &AbsentError{GVK: gvk, Err: cause}
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s is not served: %v", e.GVK, e.Err)
}

// Unwrap returns the error of the RESTMapper.
func (e *AbsentError) Unwrap() error { return e.Err }

// NotSyncedError means that a claim covers a read, but the cache does not have the objects yet or cannot determine
// whether they are current. Retry later. apierrors.IsTimeout returns true for it.
type NotSyncedError struct {
	GVK   schema.GroupVersionKind
	Scope Scope
	// Err is the last error of the watch or of the context; nil if there was none.
	Err error
}

func (e *NotSyncedError) Error() string {
	text := fmt.Sprintf("%s in %s is not synced yet", e.GVK.GroupKind(), e.Scope)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *NotSyncedError) Unwrap() error { return e.Err }

// Status returns a Timeout status with the message of the error.
func (e *NotSyncedError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: e.Error()}
}

// GapError means that a List with Options.PartialList is incomplete. The list contains everything that could be read.
type GapError struct {
	// Errs contains an error for each scope that could not be read.
	Errs []error
}

func (e *GapError) Error() string {
	text := make([]string, 0, len(e.Errs))
	for _, err := range e.Errs {
		text = append(text, err.Error())
	}
	return "the list is incomplete: " + strings.Join(text, "; ")
}

// Unwrap returns Errs.
func (e *GapError) Unwrap() []error { return e.Errs }

var (
	_ apierrors.APIStatus = (*DeniedError)(nil)
	_ apierrors.APIStatus = (*NotSyncedError)(nil)
)
