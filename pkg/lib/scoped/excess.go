package scoped

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// KeepsExcess reports whether the annotation of an OperatorGroup or ClusterExtension states that permissions of installed
// operators that exceed the account are only reported. This only reduces what Remit removes; the admission policy
// remit-excess-check limits who may set the annotation.
func KeepsExcess(obj metav1.Object) bool {
	return obj.GetAnnotations()[names.AnnotationKeepExcess] == "true"
}
