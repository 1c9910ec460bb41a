package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/proof"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// signer writes as the user who runs the command.
type signer struct {
	client client.Client
	keys   *proof.Keys
	home   string
}

// adopt takes over a namespace. While it adds proofs, the managed-by annotations leave the namespace to OLM, which is not
// running, so neither OLM nor Remit acts on a partially adopted namespace. The last write transfers the namespace to Remit.
func (s *signer) adopt(ctx context.Context, p *plan) error {
	if len(p.report.Refused) > 0 || len(p.signs) == 0 && p.report.ManagedBy != names.ManagedByOLM {
		return nil
	}
	managed := p.managed()
	rec, cm, err := load(ctx, s.client, s.home, p.namespace)
	if err != nil {
		return err
	}
	for _, obj := range managed {
		rec.add(recordedManager(obj))
	}
	if err := p.enter(rec); err != nil {
		return err
	}
	if err := rec.store(ctx, s.client, cm); err != nil {
		return err
	}
	if err := s.manage(ctx, managed, names.ManagedByOLM); err != nil {
		return err
	}
	if err := s.signAll(ctx, p); err != nil {
		return err
	}
	if err := s.manage(ctx, managed, ""); err != nil {
		return err
	}
	p.done()
	return nil
}

// done updates the report after the adoption.
func (p *plan) done() {
	p.report.ManagedBy = "remit"
	for i := range p.report.Objects {
		if p.report.Objects[i].Verdict == Adopt {
			p.report.Objects[i].Verdict = Adopted
		}
	}
}

// managed returns the objects whose annotations determine whether OLM or Remit manages the namespace.
func (p *plan) managed() []client.Object {
	var out []client.Object
	for i := range p.groups {
		group := &metav1.PartialObjectMetadata{ObjectMeta: *p.groups[i].ObjectMeta.DeepCopy()}
		group.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind))
		out = append(out, group)
	}
	for i := range p.catalogs {
		out = append(out, p.catalogs[i].DeepCopy())
	}
	return out
}

// manage sets the manager of objects; "" means Remit.
func (s *signer) manage(ctx context.Context, objs []client.Object, by string) error {
	value := &by
	if by == "" {
		value = nil
	}
	for _, obj := range objs {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			live := &metav1.PartialObjectMetadata{} // Remit may have updated the status
			live.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
				return fmt.Errorf("get %s: %w", apply.Describe(obj), err)
			}
			live.SetUID(obj.GetUID()) // a precondition
			if scoped.LeftToOLM(live) == (by == names.ManagedByOLM) {
				return nil
			}
			return s.patch(ctx, live, fieldManager, nil, map[string]*string{names.AnnotationManagedBy: value})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func recordedManager(obj client.Object) recordedObject {
	out := recordedOf(obj)
	var before *string
	if value, ok := obj.GetAnnotations()[names.AnnotationManagedBy]; ok {
		before = &value
	}
	out.Annotations = map[string]change{names.AnnotationManagedBy: {Before: before}}
	return out
}

func recordedOf(obj client.Object) recordedObject {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return recordedObject{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
}

// record returns the data that undo needs to restore an object.
func (g *signing) record() (recordedObject, error) {
	out := recordedOf(g.object)
	out.For, out.Manager = g.owner.CSV, managerOf(g.owner)
	_, out.ManagedFields = transferred(g.object.GetManagedFields(), out.Manager)
	out.Labels = changes(g.object.GetLabels(), g.labels)
	signature, err := g.proof()
	if err != nil {
		return out, err
	}
	out.Annotations = changes(g.object.GetAnnotations(), map[string]string{names.AnnotationProof: signature})
	return out, nil
}

func changes(have, want map[string]string) map[string]change {
	out := map[string]change{}
	for k, v := range want {
		before, exists := have[k]
		switch {
		case !exists:
			out[k] = change{After: &v}
		case before != v:
			out[k] = change{Before: &before, After: &v}
		}
	}
	return out
}

// proof returns the proof for an object. It depends on the object's creation time, so that it is not valid for another object
// that replaces this one.
func (g *signing) proof() (string, error) {
	live := apply.Reference(g.object.GetObjectKind().GroupVersionKind(), g.object.GetNamespace(), g.object.GetName())
	live.SetUID(g.object.GetUID())
	live.SetCreationTimestamp(g.object.GetCreationTimestamp())
	proven := live.DeepCopy()
	if err := g.owner.Prove(proven, live); err != nil {
		return "", fmt.Errorf("prove ownership of %s: %w", apply.Describe(g.object), err)
	}
	return proven.GetAnnotations()[names.AnnotationProof], nil
}

// sign adds the labels and the proof to an object, and then transfers them and all fields that OLM manages to the install's
// field manager. Both requests fail if the object has changed since it was read. If only its status has changed, they are
// retried.
func (s *signer) sign(ctx context.Context, g *signing) error {
	signature, err := g.proof()
	if err != nil {
		return err
	}
	mayRetry := func(err error) bool { return apierrors.IsConflict(err) && s.refresh(ctx, g) }
	return retry.OnError(retry.DefaultBackoff, mayRetry, func() error { return s.trySign(ctx, g, signature) })
}

func (s *signer) trySign(ctx context.Context, g *signing, signature string) error {
	labels := map[string]*string{}
	for k, v := range g.labels {
		if has, ok := g.object.GetLabels()[k]; !ok || has != v {
			labels[k] = &v
		}
	}
	manager := managerOf(g.owner)
	if len(labels) > 0 || !g.owner.Owns(g.object) {
		if err := s.patch(ctx, g.object, manager, labels, map[string]*string{names.AnnotationProof: &signature}); err != nil {
			return err
		}
	}
	if want, moved := transferred(g.object.GetManagedFields(), manager); len(moved) > 0 || !slices.EqualFunc(want, g.object.GetManagedFields(), sameEntry) {
		return s.setManagedFields(ctx, g.object, want)
	}
	return nil
}

// refresh reads the metadata of an object again. It reports whether everything on which the verdict depends is unchanged. The
// generation is needed to determine this, so refresh returns false for kinds without a generation, unless the object already has
// the proof.
func (s *signer) refresh(ctx context.Context, g *signing) bool {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(g.object.GetObjectKind().GroupVersionKind())
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(g.object), live); err != nil || live.UID != g.object.GetUID() || live.DeletionTimestamp != nil {
		return false
	}
	same := live.Generation > 0 && live.Generation == g.object.GetGeneration() &&
		equality.Semantic.DeepEqual(live.OwnerReferences, g.object.GetOwnerReferences()) && maps.Equal(live.Labels, g.object.GetLabels()) &&
		maps.Equal(alongside(live), alongside(g.object))
	if !same && !g.owner.Owns(live) {
		return false
	}
	copyMetadata(live, g.object)
	return true
}

// copyMetadata copies the metadata that the command changes.
func copyMetadata(from *metav1.PartialObjectMetadata, to client.Object) {
	to.SetResourceVersion(from.ResourceVersion)
	to.SetLabels(from.Labels)
	to.SetAnnotations(from.Annotations)
	to.SetManagedFields(from.ManagedFields)
}

func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource
}

// patch sets labels and annotations, and removes those whose value is nil. It updates obj from the response.
func (s *signer) patch(ctx context.Context, obj client.Object, manager string, labels, annotations map[string]*string) error {
	metadata := map[string]any{}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return s.send(ctx, obj, manager, metadata)
}

func (s *signer) setManagedFields(ctx context.Context, obj client.Object, fields []metav1.ManagedFieldsEntry) error {
	return s.send(ctx, obj, fieldManager, map[string]any{"managedFields": fields})
}

// send patches only the metadata of an object. The UID and the resource version are preconditions.
func (s *signer) send(ctx context.Context, obj client.Object, manager string, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	into := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	into.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := s.client.Patch(ctx, into, client.RawPatch(types.MergePatchType, data), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("patch %s: %w", apply.Describe(obj), err)
	}
	copyMetadata(into, obj)
	return nil
}
