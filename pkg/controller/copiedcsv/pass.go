package copiedcsv

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// pass is one reconcile of a source. It writes at most maxCopies copies, and counts the rest.
type pass struct {
	r    *Reconciler
	want wanted
	// until is the time at which the pass stops writing.
	until time.Time
	// confirmed is true if the API server has confirmed that the cached OperatorGroup and account are current.
	confirmed bool
	written   int
	// left is the number of copies that a later pass must write or delete. missing counts the copies that do not exist
	// yet, and surplus those that must still be deleted.
	left, missing, surplus int
	// collisions are the namespaces in which another ClusterServiceVersion has the name of the copy.
	collisions []string
	errs       []error
	// broken is the number of errors that may affect all namespaces, unlike refusals by the quota or policy of one namespace.
	broken int
	// next is the namespace of the first copy that was not written because of the limits.
	next string
}

// run deletes the copies that should not exist, and then writes those that should, unless the OperatorGroup is being deleted.
func (p *pass) run(ctx context.Context, copies []metav1.PartialObjectMetadata) {
	for i := range copies {
		p.deleteUnwanted(ctx, &copies[i])
	}
	if p.want.undecided || scoped.CheckNotDeleted(p.want.group) != nil {
		return
	}
	p.written = 0 // so that copies that cannot be deleted do not prevent other copies from being written
	first, _ := slices.BinarySearch(p.want.namespaces, p.r.next.Get(p.want.key))
	for _, namespace := range slices.Concat(p.want.namespaces[first:], p.want.namespaces[:first]) {
		before := p.left
		p.ensure(ctx, namespace)
		if p.left > before && p.next == "" {
			p.next = namespace
		}
	}
}

// mayWrite reports whether another copy can be written in this pass. If not, it counts the copy as left.
func (p *pass) mayWrite(ctx context.Context) bool {
	if p.broken >= maxErrors || p.written >= maxCopies || p.written > 0 && time.Now().After(p.until) || ctx.Err() != nil {
		p.left++
		return false
	}
	p.written++
	return true
}

// failed records an error. A refusal by the quota or policy of one namespace does not prevent copies in other namespaces.
func (p *pass) failed(err error, action, namespace string) {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		p.broken++
	}
	if len(p.errs) == maxErrors {
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s the copy of ClusterServiceVersion %s in namespace %q: %w", action, p.want.key, namespace, err))
}

// deleteUnwanted deletes a copy of the source that Remit created, if the copy is not wanted or its annotations are
// wrong. A wanted copy is created again when its deletion is observed.
func (p *pass) deleteUnwanted(ctx context.Context, found *metav1.PartialObjectMetadata) {
	keep := p.want.undecided || isWanted(p.want, found.Namespace) || p.want.isUnknown(found.Namespace)
	if keep && isCopyOf(found, p.want) || found.DeletionTimestamp != nil || !p.r.isOwnCopy(found) {
		return
	}
	if len(found.OwnerReferences) > 0 { // the admission policy remit-self-copies refuses its deletion; a change to the copy causes another pass
		p.surplus++
		return
	}
	if !p.mayWrite(ctx) {
		p.surplus++
		return
	}
	err := p.r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		p.r.seen.Delete(found.UID)
	case apierrors.IsConflict(err): // the cache is outdated; the pending event triggers another pass
		p.surplus++
	default:
		p.surplus++
		p.failed(err, "delete", found.Namespace)
	}
}

// ensure writes the copy in a namespace if it does not exist or differs from the desired copy.
func (p *pass) ensure(ctx context.Context, namespace string) {
	key := client.ObjectKey{Namespace: namespace, Name: p.want.key.Name}
	found := kit.Copy()
	err := p.r.Copies.Get(ctx, key, found)
	switch {
	case apierrors.IsNotFound(err):
		p.create(ctx, key)
	case err != nil:
		p.failed(err, "get", namespace)
	case found.DeletionTimestamp != nil || found.Labels[names.LabelCopiedFrom] == p.want.key.Namespace && p.r.isOwnCopy(found) && !isCopyOf(found, p.want):
		p.missing++ // the copy is being deleted, and will be created again
	case found.Labels[names.LabelCopiedFrom] != p.want.key.Namespace || !p.r.isOwnCopy(found):
		p.collisions = append(p.collisions, namespace)
	case !isSettled(found, p.want.content.annotations[names.AnnotationCopyHash], p.r.seen.Get(found.UID)):
		if p.mayWrite(ctx) {
			p.write(ctx, found)
		}
	case p.r.seen.Get(found.UID) == "":
		p.r.seen.Set(found.UID, found.ResourceVersion)
	}
}

// confirm verifies, before the first write, that the OperatorGroup and its account have not changed.
func (p *pass) confirm(ctx context.Context) error {
	if p.confirmed {
		return nil
	}
	account, group, err := p.r.Default.Lookup(p.r.Live).Account(ctx, p.want.key.Namespace)
	if err := cmp.Or(scoped.CheckNotLeft(group), err); err != nil {
		return err
	}
	if err := scoped.CheckNotDeleted(group); err != nil {
		return err
	}
	if account != p.want.account || group.UID != p.want.group.UID || group.Generation != p.want.group.Generation {
		return fmt.Errorf("OperatorGroup %s/%s or its account has changed", group.Namespace, group.Name)
	}
	p.confirmed = true
	return nil
}

// create creates the copy in the namespace of key. If another ClusterServiceVersion has the name, create records a
// collision instead.
func (p *pass) create(ctx context.Context, key client.ObjectKey) {
	err := p.r.Client.Get(ctx, key, &operatorsv1alpha1.ClusterServiceVersion{})
	switch {
	case err == nil:
		p.collisions = append(p.collisions, key.Namespace)
		return
	case !apierrors.IsNotFound(err):
		p.failed(err, "get", key.Namespace)
		return
	}
	p.missing++
	if !p.mayWrite(ctx) {
		return
	}
	if err := p.confirm(ctx); err != nil {
		p.failed(err, "create", key.Namespace)
		return
	}
	obj := p.want.content.copyIn(key.Namespace, key.Name)
	if obj.Annotations[names.AnnotationProof], err = p.proof(key.Namespace, key.Name, nil); err == nil {
		err = p.r.Client.Create(ctx, obj, client.FieldOwner(names.UserAgentOLM))
	}
	switch {
	case err == nil:
		p.missing--
		p.complete(ctx, obj)
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The cache is outdated. The pending event for the object or namespace triggers another pass.
	default:
		p.failed(err, "create", key.Namespace)
	}
}

// proof returns the proof that Remit created a copy. made is the copy, or nil if it does not exist yet.
func (p *pass) proof(namespace, name string, made *operatorsv1alpha1.ClusterServiceVersion) (string, error) {
	reference := func() *unstructured.Unstructured {
		return apply.Reference(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind), namespace, name)
	}
	signed := reference()
	var live *unstructured.Unstructured
	if made != nil {
		live = reference()
		live.SetUID(made.UID)
		live.SetCreationTimestamp(made.CreationTimestamp)
		live.SetAnnotations(made.Annotations)
	}
	err := p.r.Proofs.Sign(signed, names.HolderCopy, live)
	return signed.GetAnnotations()[names.AnnotationProof], err
}

// complete writes the status of a copy that was just created, and renews a proof that does not match the creation time.
func (p *pass) complete(ctx context.Context, made *operatorsv1alpha1.ClusterServiceVersion) {
	found := kit.Copy()
	found.SetNamespace(made.GetNamespace())
	found.SetName(made.GetName())
	found.SetUID(made.GetUID())
	found.SetResourceVersion(made.GetResourceVersion())
	found.SetAnnotations(made.GetAnnotations())
	if again, err := p.proof(found.Namespace, found.Name, made); err == nil && again != found.Annotations[names.AnnotationProof] {
		found.SetAnnotations(map[string]string{names.AnnotationProof: again})
		p.write(ctx, found)
		return
	}
	p.send(ctx, found, true)
}

// write overwrites a copy: the status first, so that the hash in the annotations applies to both.
func (p *pass) write(ctx context.Context, found *metav1.PartialObjectMetadata) {
	if err := p.confirm(ctx); err != nil {
		p.failed(err, "update", found.Namespace)
		return
	}
	proof := found.Annotations[names.AnnotationProof]
	if !p.send(ctx, found, true) {
		return
	}
	found.Annotations = map[string]string{names.AnnotationProof: proof}
	p.send(ctx, found, false)
}

// send patches the status or the rest of a copy, and records the resulting resource version. It returns false if the
// patch failed.
func (p *pass) send(ctx context.Context, found *metav1.PartialObjectMetadata, isStatus bool) bool {
	body, err := p.want.content.mainPatch(found.ResourceVersion, found.Annotations[names.AnnotationProof])
	if isStatus {
		body, err = p.want.content.statusPatch(found.ResourceVersion)
	}
	uid := found.UID
	switch {
	case err != nil:
	case isStatus:
		err = p.r.Client.Status().Patch(ctx, found, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(names.UserAgentOLM))
	default:
		err = p.r.Client.Patch(ctx, found, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(names.UserAgentOLM))
	}
	switch {
	case err == nil:
		p.r.seen.Set(uid, found.ResourceVersion)
		return true
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err): // otherwise, the cache is outdated
		p.failed(err, "update", found.Namespace)
	}
	return false
}

// isNewer reports whether a resource version is newer than another one.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
