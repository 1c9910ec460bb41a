package catalogsource

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Image templates (OLM v0 contract).
const (
	annotationTemplate = "olm.catalogImageTemplate"

	typeTemplatesResolved = "TemplatesHaveResolved"
	typeResolvedImage     = "ResolvedImage"
	reasonAllResolved     = "AllTemplatesResolved"
	reasonUnableToResolve = "UnableToResolve"
)

// imageSpecOf returns the image spec of a CatalogSource. serverVersion is the API server's version from discovery. The
// conditions are those of an image template, if there is one.
func imageSpecOf(cs *operatorsv1alpha1.CatalogSource, serverVersion string) (imageSpec, []metav1.Condition) {
	named, conditions := resolveTemplate(cs, serverVersion)
	spec := imageSpec{image: image.Tagged(named), secrets: slices.Clone(cs.Spec.Secrets)}
	if config := cs.Spec.GrpcPodConfig; config != nil && config.ExtractContent != nil {
		spec.folder = config.ExtractContent.CatalogDir
	}
	if cs.Poll() && cs.Spec.UpdateStrategy.Interval != nil {
		spec.interval = cs.Spec.UpdateStrategy.Interval.Duration
	}
	return spec, conditions
}

// resolveTemplate returns the image reference with the API server's version filled in. If a template cannot be
// resolved, spec.image is used.
func resolveTemplate(cs *operatorsv1alpha1.CatalogSource, serverVersion string) (string, []metav1.Condition) {
	template := cs.Annotations[annotationTemplate]
	if template == "" {
		return cs.Spec.Image, nil
	}
	named := template
	if v, err := version.ParseGeneric(serverVersion); err == nil {
		named = strings.NewReplacer(
			"{kube_major_version}", fmt.Sprint(v.Major()),
			"{kube_minor_version}", fmt.Sprint(v.Minor()),
			"{kube_patch_version}", fmt.Sprint(v.Patch()),
		).Replace(template)
	}
	if strings.ContainsAny(named, "{}") {
		return cs.Spec.Image, []metav1.Condition{
			{Type: typeTemplatesResolved, Status: metav1.ConditionFalse, Reason: reasonUnableToResolve,
				Message: status.Text(fmt.Sprintf("cannot construct catalog image reference: template %q resolves to %q; spec.image is used", template, named))},
			{Type: typeResolvedImage, Status: metav1.ConditionFalse, Reason: reasonUnableToResolve,
				Message: status.Text(cs.Spec.Image)},
		}
	}
	return named, []metav1.Condition{
		{Type: typeTemplatesResolved, Status: metav1.ConditionTrue, Reason: reasonAllResolved, Message: "catalog image reference was successfully resolved"},
		{Type: typeResolvedImage, Status: metav1.ConditionTrue, Reason: reasonAllResolved, Message: status.Text(named)},
	}
}
