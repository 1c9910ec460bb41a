package clustercatalog

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// desired returns the status for an observation. base is the URL at which the content is served. After a restart, the
// status is unchanged until the image has been checked, which takes only seconds if its content is still on disk.
func desired(k *olmv1.ClusterCatalog, seen view, base string, now metav1.Time) *olmv1.ClusterCatalogStatus {
	out := k.Status.DeepCopy()
	old := out.ResolvedSource
	if old != nil && seen == (view{}) && !isUnavailable(k) {
		return out
	}
	out.ResolvedSource, out.URLs = nil, nil
	if seen.good == nil {
		out.LastUnpacked = nil
	} else {
		out.URLs = &olmv1.ClusterCatalogURLs{Base: base}
		out.ResolvedSource = &olmv1.ResolvedCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: seen.good.ref}}
		// Content that was already served before this program started keeps its time.
		if out.LastUnpacked == nil || old == nil || old.Image == nil || old.Image.Ref != seen.good.ref {
			out.LastUnpacked = ptr.To(metav1.NewTime(seen.good.at).Rfc3339Copy())
		}
	}
	for _, c := range []metav1.Condition{serving(k, seen), progressing(k, seen)} {
		c.ObservedGeneration, c.LastTransitionTime, c.Message = k.Generation, now, status.Text(c.Message)
		meta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// serving returns the condition Serving.
func serving(k *olmv1.ClusterCatalog, seen view) metav1.Condition {
	c := metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionFalse}
	switch {
	case isUnavailable(k):
		c.Reason, c.Message = olmv1.ReasonUserSpecifiedUnavailable, "spec.availabilityMode is Unavailable: the content is not served and was deleted"
	case seen.good == nil:
		c.Reason, c.Message = olmv1.ReasonUnavailable, "there is no content to serve yet"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, olmv1.ReasonAvailable, status.Text(served(seen))
	}
	return c
}

// served describes the content that is served.
func served(seen view) string {
	text := count(len(seen.good.Packages), "package") + " is served"
	if len(seen.good.Warnings) > 0 {
		text += ". Some content is not served: " + strings.Join(seen.good.Warnings, "; ")
	}
	return text
}

// progressing returns the condition Progressing.
func progressing(k *olmv1.ClusterCatalog, seen view) metav1.Condition {
	c := metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue}
	ref := specOf(k).ref
	switch {
	case isUnavailable(k):
		c.Reason, c.Message = olmv1.ReasonSucceeded, "nothing is read while spec.availabilityMode is Unavailable"
	case seen.err == nil && !seen.checked:
		c.Reason, c.Message = olmv1.ReasonRetrying, status.Text(fmt.Sprintf("reading image %q", ref))
	case seen.err == nil:
		c.Reason, c.Message = olmv1.ReasonSucceeded, status.Text(fmt.Sprintf("the content of image %q is up to date", ref))
	case kit.Is[pull.Refused](seen.err):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, olmv1.ReasonBlocked, status.Text(problem(seen))
	default:
		c.Reason, c.Message = olmv1.ReasonRetrying, status.Text(problem(seen))
	}
	return c
}

// problem describes the error of the last check, and whether content is served.
func problem(seen view) string {
	text := status.OneLine(seen.err.Error())
	if seen.good != nil {
		text += fmt.Sprintf("; the content of %s is still served", seen.good.ref)
	}
	return text
}

// isUnavailable reports whether the content must not be served. The API server defaults the mode to Available.
func isUnavailable(k *olmv1.ClusterCatalog) bool {
	return k.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
