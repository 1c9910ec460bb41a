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

// problem is why a catalog is not as its author wants it.
type problem struct {
	reason  operatorsv1alpha1.ConditionReason
	message string
}

func problemf(reason operatorsv1alpha1.ConditionReason, format string, args ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...)}
}

// invalid says what is wrong with a spec, in the words that tools know from OLM v0.
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

// invalidInterval says what is wrong with the poll interval of a catalog whose image could be polled.
func invalidInterval(cs *operatorsv1alpha1.CatalogSource) *problem {
	if !cs.Poll() || cs.Spec.UpdateStrategy.ParsingError == "" {
		return nil
	}
	return &problem{
		reason:  operatorsv1alpha1.CatalogSourceIntervalInvalidError,
		message: cs.Spec.UpdateStrategy.ParsingError,
	}
}

// observation is what was found out about a catalog in one reconcile.
type observation struct {
	problem *problem
	// state is a gRPC connectivity state by name; empty where there is nothing to connect to.
	state string
	// address is where the content comes from.
	address string
	// snapshot is the content to publish; nil withdraws.
	snapshot *catalog.Snapshot
	// configMap is the ConfigMap that was read.
	configMap *operatorsv1alpha1.ConfigMapResourceReference
	// polled is when the image's registry was last asked; nil where there is none.
	polled *metav1.Time
	// conditions are those of an image's template.
	conditions []metav1.Condition
	// service is that of a registry that Remit runs; empty where there is none.
	service types.NamespacedName
	// retry is an error that no watch would wake us from.
	retry error
	// again is when to look again, if nobody wakes us before; zero is never.
	again time.Duration
}

// content is a load's result: the last good snapshot, if any, and what is wrong with a newer one.
type content struct {
	good *catalog.Snapshot
	err  error
}

// with is the content after another load of the same catalog. Where files of the newer one cannot be read, and it therefore
// lacks a package, what was good before stays as a whole: nobody loses a package since a file broke. Where nothing
// was known before, the rest of the newer one is better than nothing.
func (c content) with(newer *catalog.Snapshot) content {
	if newer.IsMissingPackagesOf(c.good) {
		return content{good: c.good, err: errors.New(warnings(newer))}
	}
	return content{good: newer}
}

func warnings(s *catalog.Snapshot) string { return strings.Join(s.Warnings, "; ") }

// warned is the problem of content that is served though files of it cannot be read, if it is that.
func (c content) warned(reason operatorsv1alpha1.ConditionReason, where string) *problem {
	if c.err != nil || c.good == nil || len(c.good.Warnings) == 0 {
		return nil
	}
	return problemf(reason, "%s: %s; the rest of the catalog is served", where, warnings(c.good))
}

// message says what is wrong, and what that means for users of the catalog.
func (c content) message(where string) string {
	if c.good == nil {
		return fmt.Sprintf("%s: %v", where, c.err)
	}
	return fmt.Sprintf("%s: %v; the last good content (%s) is still served", where, c.err, c.good.Digest)
}
