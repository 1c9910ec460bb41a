package deployment

import (
	"bytes"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// An Edit is a container whose image was set by another field manager.
type Edit struct {
	Container, Image, Wanted string
	// Manager is the field manager that set the image; "" in the results of OtherImages.
	Manager string
}

// Edits returns the wanted containers whose image was set by a field manager other than the install's. live must have
// managed fields, which caches omit. A change that a mutating webhook makes to Remit's request is attributed to Remit
// and is not an edit.
func Edits(live, want *appsv1.Deployment) []Edit {
	own := apply.Manager(want.Labels)
	var out []Edit
	for _, e := range OtherImages(live, want) {
		for _, f := range live.ManagedFields {
			if f.Manager != own && f.FieldsV1 != nil && managesImage(f.FieldsV1.GetRawBytes(), e.Container) {
				e.Manager = f.Manager
				out = append(out, e)
				break
			}
		}
	}
	return out
}

// OtherImages returns the wanted containers that have a different image in the live Deployment, which may be cached.
// The image was set by another manager or by a mutating webhook; Edits distinguishes the two. Containers that the live
// Deployment does not have are ignored.
func OtherImages(live, want *appsv1.Deployment) []Edit {
	var out []Edit
	wanted, have := &want.Spec.Template.Spec, &live.Spec.Template.Spec
	for _, pair := range [][2][]corev1.Container{{wanted.InitContainers, have.InitContainers}, {wanted.Containers, have.Containers}} {
		for _, w := range pair[0] {
			i := slices.IndexFunc(pair[1], func(c corev1.Container) bool { return c.Name == w.Name })
			if i >= 0 && pair[1][i].Image != w.Image {
				out = append(out, Edit{Container: w.Name, Image: pair[1][i].Image, Wanted: w.Image})
			}
		}
	}
	return out
}

// managesImage reports whether managed fields include the image of a container.
func managesImage(fields []byte, container string) bool {
	var set fieldpath.Set
	if set.FromJSON(bytes.NewReader(fields)) != nil {
		return false
	}
	return slices.ContainsFunc([]string{"containers", "initContainers"}, func(list string) bool {
		return set.Has(fieldpath.MakePathOrDie("spec", "template", "spec", list, fieldpath.KeyByFields("name", container), "image"))
	})
}
