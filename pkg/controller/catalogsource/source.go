package catalogsource

import (
	"errors"
	"fmt"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// problem is a status reason and message.
type problem struct {
	reason  operatorsv1alpha1.ConditionReason
	message string
}

func problemf(reason operatorsv1alpha1.ConditionReason, format string, args ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...)}
}

// invalid returns the problem of an invalid spec, in the wording of OLM v0, because tools match on it.
func invalid(spec *operatorsv1alpha1.CatalogSourceSpec) *problem {
	const reason = operatorsv1alpha1.CatalogSourceSpecInvalidError
	switch spec.SourceType {
	case operatorsv1alpha1.SourceTypeConfigmap, operatorsv1alpha1.SourceTypeInternal:
		if spec.ConfigMap == "" {
			return problemf(reason, "configmap name unset: must be set for sourcetype: %s", spec.SourceType)
		}
	case operatorsv1alpha1.SourceTypeGrpc:
		if spec.Image == "" && spec.Address == "" {
			return problemf(reason, "image and address unset: at least one must be set for sourcetype: grpc")
		}
	default:
		return problemf(reason, "unknown sourcetype: %s", spec.SourceType)
	}
	return nil
}

// invalidInterval returns the problem of an invalid poll interval, if the image can be polled.
func invalidInterval(cs *operatorsv1alpha1.CatalogSource) *problem {
	if !cs.Poll() || cs.Spec.UpdateStrategy.ParsingError == "" {
		return nil
	}
	return &problem{
		reason:  operatorsv1alpha1.CatalogSourceIntervalInvalidError,
		message: cs.Spec.UpdateStrategy.ParsingError,
	}
}

// observation is the observed state of a catalog.
type observation struct {
	problem *problem
	// state is the name of a gRPC connectivity state; empty if there is no connection.
	state string
	// address is the address that the status reports.
	address string
	// snapshot is the content to publish; nil withdraws the catalog.
	snapshot *catalog.Snapshot
	// configMap is the ConfigMap that was read.
	configMap *operatorsv1alpha1.ConfigMapResourceReference
	// polled is the time of the last successful poll, or nil.
	polled *metav1.Time
	// conditions are the conditions of an image template.
	conditions []metav1.Condition
	// refusal is why package-server does not list the packages of the snapshot, if it has refused them.
	refusal string
	// service is the Service of a registry that Remit runs, or empty.
	service types.NamespacedName
	// retry is an error that has to be retried, because no watch event announces that a retry can succeed.
	retry error
	// recheckAfter is the delay before the next check without an event; 0 means none.
	recheckAfter time.Duration
}

// content is the result of a load: the last good snapshot, if any, and the error from loading a newer one.
type content struct {
	good *catalog.Snapshot
	err  error
}

// updatedWith returns the content after another load of the same catalog. If packages are missing from the newer
// snapshot because of unreadable files, the previous content is kept as a whole, so that a broken file removes no
// packages. Without previous content, the readable part is used.
func (c content) updatedWith(newer *catalog.Snapshot) content {
	if newer.IsMissingPackagesOf(c.good) {
		return content{good: c.good, err: errors.New(warnings(newer))}
	}
	return content{good: newer}
}

func warnings(s *catalog.Snapshot) string { return strings.Join(s.Warnings, "; ") }

// problem returns the error from loading the content. If there is none, it returns the warnings about files that cannot
// be read while the rest is served, or nil.
func (c content) problem(reason operatorsv1alpha1.ConditionReason, where string) *problem {
	switch {
	case c.err != nil:
		return &problem{reason: reason, message: c.message(where)}
	case c.good != nil && len(c.good.Warnings) > 0:
		return problemf(reason, "%s: %s; the rest of the catalog is served", where, warnings(c.good))
	}
	return nil
}

// message describes the error and whether content is still served.
func (c content) message(where string) string {
	if c.good == nil {
		return fmt.Sprintf("%s: %v", where, c.err)
	}
	return fmt.Sprintf("%s: %v; the last good content (%s) is still served", where, c.err, c.good.Digest)
}
