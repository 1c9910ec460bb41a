package scopedcache

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NotCoveredError means that no claim covers what was read. It wraps controller-runtime's
// *cache.ErrResourceNotCached.
type NotCoveredError struct {
	GVK   schema.GroupVersionKind
	Scope Scope
}

func (e *NotCoveredError) Error() string {
	return fmt.Sprintf("%s in %s is not cached: no claim covers it", e.GVK.GroupKind(), e.Scope)
}

// Unwrap returns a *cache.ErrResourceNotCached.
func (e *NotCoveredError) Unwrap() error { return &cache.ErrResourceNotCached{GVK: e.GVK} }

// DeniedError means that the cache's identity may not list or watch a kind in a scope. apierrors.IsForbidden returns
// true for it.
type DeniedError struct {
	Resource schema.GroupVersionResource
	Scope    Scope
	// Missing are the verbs that the server refused: "list", "watch", or both.
	Missing []string
	// Err is the server's answer. It names the user.
	Err error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("cannot %s %s in %s: %v", strings.Join(e.Missing, " and "), e.Resource.GroupResource(), e.Scope, e.Err)
}

// Unwrap returns the server's answer.
func (e *DeniedError) Unwrap() error { return e.Err }

// Status returns the server's status with the cache's message.
func (e *DeniedError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: e.Error(),
		Details: &metav1.StatusDetails{Group: e.Resource.Group, Kind: e.Resource.Resource, Name: e.Scope.name},
	}
}

// AbsentError means that the server does not serve a kind, for example because its CustomResourceDefinition is not
// installed. The cache answers as soon as the kind is served. meta.IsNoMatchError returns true for it.
type AbsentError struct {
	GVK schema.GroupVersionKind
	Err error
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s is not served: %v", e.GVK, e.Err)
}

// Unwrap returns the error of the RESTMapper.
func (e *AbsentError) Unwrap() error { return e.Err }

// NotSyncedError means that a claim covers what was read, but that its objects are not known yet, or not known to be
// current. Read again later. apierrors.IsTimeout returns true for it.
type NotSyncedError struct {
	GVK   schema.GroupVersionKind
	Scope Scope
	// Err is the last failure of the watch, or the end of the context; nil if there was none.
	Err error
}

func (e *NotSyncedError) Error() string {
	text := fmt.Sprintf("%s in %s is not synced yet", e.GVK.GroupKind(), e.Scope)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the last failure.
func (e *NotSyncedError) Unwrap() error { return e.Err }

// Status returns a timeout.
func (e *NotSyncedError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: e.Error()}
}

// GapError is returned by a List with Options.PartialList that could not return everything. The list has all that
// could be read.
type GapError struct {
	// Errs says what is missing, one error for each scope.
	Errs []error
}

func (e *GapError) Error() string {
	text := make([]string, 0, len(e.Errs))
	for _, err := range e.Errs {
		text = append(text, err.Error())
	}
	return "the list is incomplete: " + strings.Join(text, "; ")
}

// Unwrap returns the error of each scope.
func (e *GapError) Unwrap() []error { return e.Errs }

var (
	_ apierrors.APIStatus = (*DeniedError)(nil)
	_ apierrors.APIStatus = (*NotSyncedError)(nil)
)
