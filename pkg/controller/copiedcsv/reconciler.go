package copiedcsv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// maxCopies limits how many copies one reconcile writes, and maxTime for how long it writes. The rest follows after
	// other namespaces have had their turn. If an item took longer than fairqueue.Slow, its namespace would count as
	// slow.
	maxCopies = 50
	maxTime   = 500 * time.Millisecond
	// maxErrors is the number of errors, except refusals, after which a reconcile gives up, and maxNamed the number of
	// namespaces in an event.
	maxErrors = 3
	maxNamed  = 10
)

// Reasons of events on the source of copies.
const (
	eventDisabled  = operatorsv1.DisabledCopiedCSVsConditionType
	eventCollision = "CopyCollision"
)

// Proofs creates and verifies proofs. *proof.Keys implements it.
type Proofs interface {
	Sign(desired *unstructured.Unstructured, holder string, live *unstructured.Unstructured) error
	Proves(obj client.Object, holder string) bool
}

// Options contains the dependencies of New. All fields except Default and Protected are required.
type Options struct {
	// Client reads from the cache, which does not contain copies, and writes copies as the controller identity.
	Client client.Client
	// Copies reads from the cache of kit.NewCopies, with the index of Index.
	Copies client.Reader
	// Live reads OperatorGroups and accounts directly from the API server.
	Live     client.Reader
	RBAC     rbac.Listers
	Recorder events.EventRecorder
	// Proofs creates and verifies the proofs that Remit created a copy.
	Proofs Proofs
	// Default is the installation's default account; the zero value means that there is none.
	Default scoped.Default
	// Protected lists namespaces that have copies even if OLMConfig disables them.
	Protected []string
}

// Reconciler maintains the copies of ClusterServiceVersions. Each request is for a source.
type Reconciler struct {
	Options
	interests *kit.Interests
	ask       preflight.Reviewer
	// reaching contains the sources whose OperatorGroup targets other namespaces than their own.
	reaching *keyed.Map[types.NamespacedName, bool]
	// seen contains the resource version of each copy when it was last known to be in the desired state, keyed by
	// UID.
	seen *keyed.Map[types.UID, string]
	// next contains, for each source, the namespace at which the next pass begins.
	next *keyed.Map[types.NamespacedName, string]
	// reported contains what events last reported about each source.
	reported *keyed.Map[types.NamespacedName, reported]
	// progress contains the state of each source whose OperatorGroup targets all namespaces, for the status of OLMConfig.
	progress *keyed.Map[types.NamespacedName, progress]
	// reporter wakes the controller of OLMConfig.
	reporter *kit.Waker
}

// reported is what events last reported about a source.
type reported struct {
	disabled   bool
	collisions string
}

// progress is the number of copies of one source that are still to be written or deleted.
type progress struct{ missing, surplus int }

// New returns a Reconciler, or an error if required options are missing.
func New(o Options) (*Reconciler, error) {
	if o.Client == nil || o.Copies == nil || o.Live == nil || o.RBAC.Roles == nil || o.Recorder == nil || o.Proofs == nil {
		return nil, errors.New("copiedcsv: Client, Copies, Live, RBAC, Recorder and Proofs are required")
	}
	return &Reconciler{
		Options: o, interests: &kit.Interests{}, ask: preflight.Reviews(o.Client), reaching: &keyed.Map[types.NamespacedName, bool]{}, seen: &keyed.Map[types.UID, string]{}, next: &keyed.Map[types.NamespacedName, string]{},
		reported: &keyed.Map[types.NamespacedName, reported]{}, progress: &keyed.Map[types.NamespacedName, progress]{}, reporter: &kit.Waker{},
	}, nil
}

// Reconcile implements reconcile.Reconciler. The request is the key of a source, whether or not it exists.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tracked := *r
	r = &tracked
	defer r.interests.Track(req, &r.RBAC)()
	left, err := (scoped.Lookup{Reader: r.Client}).LeavesToOLM(ctx, req.Namespace)
	if left {
		r.next.Delete(req.NamespacedName)
		r.forget(req.NamespacedName) // a change of the annotation wakes the sources that still exist
	}
	if left || err != nil {
		return ctrl.Result{}, err
	}
	want, err := r.want(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	list := kit.Copies()
	if err := r.Copies.List(ctx, list, client.MatchingFields{indexSource: sourceKey(req.NamespacedName)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list copies of ClusterServiceVersion %s: %w", req.NamespacedName, err)
	}
	p := &pass{r: r, want: want, until: time.Now().Add(maxTime)}
	p.run(ctx, list.Items)
	if r.next.Delete(req.NamespacedName); p.next != "" {
		r.next.Set(req.NamespacedName, p.next)
	}
	r.report(p)
	switch {
	case len(p.errs) > 0:
		return ctrl.Result{}, errors.Join(p.errs...)
	case p.left > 0:
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{}, nil
}

// report emits an event about each change that users should know about, and records the progress.
func (r *Reconciler) report(p *pass) {
	key := p.want.key
	if p.want.csv == nil {
		r.forget(key)
		return
	}
	now := reported{disabled: p.want.disabled, collisions: p.collisionsText()}
	before := r.reported.Get(key)
	r.reported.Set(key, now)
	if now.disabled && !before.disabled {
		r.Recorder.Eventf(p.want.csv, nil, corev1.EventTypeWarning, eventDisabled, "Copy", "%s",
			status.Note("CSV copying disabled for "+key.String()))
	}
	if now.collisions != "" && now.collisions != before.collisions {
		r.Recorder.Eventf(p.want.csv, nil, corev1.EventTypeWarning, eventCollision, "Copy", "%s", status.Note(now.collisions))
	}
	reached := progress{}
	if p.want.global {
		reached = progress{missing: p.missing, surplus: p.surplus}
	}
	if r.progress.Get(key) != reached {
		r.progress.Set(key, reached)
		r.reporter.Wake(types.NamespacedName{Name: configName})
	}
}

// forget removes what is known about a source that does not exist or that is left to OLM v0.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.reaching.Delete(key)
	r.reported.Delete(key)
	if before := r.progress.Delete(key); before != (progress{}) {
		r.reporter.Wake(types.NamespacedName{Name: configName})
	}
}

// collisionsText describes the namespaces that have no copy because another ClusterServiceVersion has the name.
func (p *pass) collisionsText() string {
	n := len(p.collisions)
	if n == 0 {
		return ""
	}
	more := ""
	if n > maxNamed {
		more = fmt.Sprintf(" and %d more", n-maxNamed)
	}
	return "not copied into these namespaces, because another ClusterServiceVersion there has the same name: " +
		strings.Join(p.collisions[:min(n, maxNamed)], ", ") + more
}

// isOwnCopy reports whether Remit created the object as a copy, regardless of its labels.
func (r *Reconciler) isOwnCopy(obj client.Object) bool {
	return r.Proofs.Proves(obj, names.HolderCopy)
}

// isCopyOf reports whether an object has the label and the annotations of a copy of a source.
func isCopyOf(obj metav1.Object, w wanted) bool {
	return obj.GetLabels()[names.LabelCopiedFrom] == w.key.Namespace &&
		obj.GetAnnotations()[names.AnnotationOperatorNamespace] == w.key.Namespace &&
		(w.group == nil || obj.GetAnnotations()[names.AnnotationOperatorGroup] == w.group.Name)
}

// isSettled reports whether a copy is unchanged since Remit last wrote it. seen is the resource version that this
// program wrote. After a restart, it is unknown, and isSettled relies on the managed fields. A change by a client that
// uses the name of Remit's field manager is then not detected until the copy is written again.
func isSettled(found *metav1.PartialObjectMetadata, hash, seen string) bool {
	if seen != "" && isNewer(seen, found.ResourceVersion) {
		return true // the cache is outdated; the event of the newer version follows
	}
	if found.Annotations[names.AnnotationCopyHash] != hash {
		return false
	}
	if seen != "" {
		return found.ResourceVersion == seen
	}
	hasStatus := false
	for _, by := range found.ManagedFields {
		if by.Manager != names.UserAgentOLM {
			return false
		}
		hasStatus = hasStatus || by.Subresource == "status"
	}
	return hasStatus
}

func isWanted(w wanted, namespace string) bool {
	_, found := slices.BinarySearch(w.namespaces, namespace)
	return found
}
