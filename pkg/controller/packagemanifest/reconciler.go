package packagemanifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/turns"
	"github.com/remit-olm/remit/pkg/packages"
)

const (
	controllerName = "packagemanifest"
	// workers bounds the number of catalogs that are sent concurrently.
	workers = 4
	// describeTimeout bounds the time for reading the descriptions of one catalog, because registries may be slow. Waits for turns
	// of other namespaces do not count, up to describeWait. Both together are less than sendTimeout.
	describeTimeout, describeWait = 30 * time.Second, 15 * time.Second
	// sendTimeout bounds one request.
	sendTimeout = time.Minute
	// tenantInterval is the minimum time between sending two versions of a tenant's catalog. Each version is sent completely, and
	// tenants can change the labels and texts of a CatalogSource at any time.
	tenantInterval = 10 * time.Second
	// refusedFactor times tenantInterval is the minimum time between two attempts to send a tenant's catalog for which
	// package-server has no room.
	refusedFactor = 6
)

// Server is the API of package-server.
type Server interface {
	// Catalogs lists the catalogs that the server has, and returns the version of the list.
	Catalogs(ctx context.Context) (map[types.NamespacedName]Known, string, error)
	// Wait returns when the server has stopped.
	Wait(ctx context.Context, version string) error
	// Put sends a catalog, and Delete removes one.
	Put(ctx context.Context, key types.NamespacedName, body io.Reader) error
	Delete(ctx context.Context, key types.NamespacedName) error
	// Complete reports that all catalogs were sent.
	Complete(ctx context.Context) error
}

// Known is a catalog that the server has.
type Known struct {
	Digest string
	UID    types.UID
}

// Options configures a Reconciler. All fields are required.
type Options struct {
	// Cache reads CatalogSources, which are unstructured, and APIServices.
	Cache client.Reader
	// Catalogs contains the content of catalogs.
	Catalogs *catalog.Store
	// GlobalNamespace is the global catalog namespace.
	GlobalNamespace string
	Server          Server
}

// Reconciler sends one catalog per request.
type Reconciler struct {
	Options
	waker    *kit.Waker
	sessions *sessions
	// notify is called when the Refusal of a catalog changes.
	notify func(types.NamespacedName)
	// interval is tenantInterval, except in tests. earliest contains when the next version of a catalog may be sent.
	interval time.Duration
	earliest keyed.Map[types.NamespacedName, time.Time]
	removed  removals
	// incomplete contains the catalogs that were sent without some of their descriptions.
	incomplete keyed.Map[types.NamespacedName, incomplete]
}

// New returns a Reconciler.
func New(o Options) (*Reconciler, error) {
	if o.Cache == nil || o.Catalogs == nil || o.Server == nil || o.GlobalNamespace == "" {
		return nil, errors.New("packagemanifest: Cache, Catalogs, Server and GlobalNamespace are required")
	}
	r := &Reconciler{Options: o, waker: &kit.Waker{}, interval: tenantInterval, notify: func(types.NamespacedName) {}}
	r.sessions = &sessions{
		server: o.Server, keys: r.keys, wake: r.waker.Wake, available: r.available, isGlobal: r.isGlobal,
		notify: func(key types.NamespacedName) { r.notify(key) }, changed: make(chan struct{}, 1),
	}
	return r, nil
}

// SetupWithManager registers the controller. catalogs wakes the CatalogSource whose content changes.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, catalogs source.Source) error {
	if err := mgr.Add(r.sessions); err != nil {
		return fmt.Errorf("add %T: %w", r.sessions, err)
	}
	err := kit.OnEvent(ctx, mgr.GetCache(), &apiregistrationv1.APIService{}, func(before, after client.Object) {
		if kit.Latest(before, after).GetName() == apiService {
			r.sessions.wakeUp()
		}
	})
	if err != nil {
		return err
	}
	waits := &fairqueue.Waits{}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(newObject(), &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.LabelChangedPredicate{}))).
		WatchesRawSource(catalogs).
		WatchesRawSource(source.Func(r.waker.Start)).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(fairqueue.LastRetry), waits)).
		Complete(waits.Measure(r))
}

// apiService is the name of the APIService of package-server.
const apiService = "v1.packages.operators.coreos.com"

// Refusal returns why package-server does not list the current packages of a catalog. It returns "" if package-server lists them, has not
// received them yet, or does not run.
func (r *Reconciler) Refusal(catalog types.NamespacedName) string {
	if s := r.sessions.current(); s != nil {
		return s.refusal(catalog)
	}
	return ""
}

// WatchRefusals registers the function that is called when the Refusal of a catalog changes. It must be called before the
// controller starts, with a function that does not block.
func (r *Reconciler) WatchRefusals(notify func(catalog types.NamespacedName)) { r.notify = notify }

// available reports whether the APIService exists and is available.
func (r *Reconciler) available(ctx context.Context) bool {
	a := &apiregistrationv1.APIService{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Name: apiService}, a); err != nil {
		return false
	}
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue && a.Spec.Service != nil
		}
	}
	return false
}

// keys returns the names of all catalogs that have content.
func (r *Reconciler) keys() []types.NamespacedName {
	all := r.Catalogs.All()
	out := make([]types.NamespacedName, 0, len(all))
	for key := range all {
		out = append(out, key)
	}
	return out
}

// Reconcile sends the current content of a catalog to package-server, or removes the catalog from it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := r.sessions.current()
	if s == nil {
		return ctrl.Result{}, nil // the next session sends everything
	}
	wait, err := r.send(ctx, s, req.NamespacedName)
	s.done(req.NamespacedName)
	if next, ok := s.next(req.NamespacedName); ok {
		r.waker.Wake(next)
	}
	return ctrl.Result{RequeueAfter: wait}, err
}

// send sends what has changed. wait is how long to wait before the next version of a tenant's catalog can be sent.
func (r *Reconciler) send(ctx context.Context, s *session, key types.NamespacedName) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	known, has := s.known(key)
	cs := newObject()
	err = r.Cache.Get(ctx, key, cs)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("get CatalogSource: %w", err)
	}
	snap, ok := r.Catalogs.Get(key)
	if err != nil || cs.GetDeletionTimestamp() != nil || !ok {
		if !has || err == nil && r.isKept(key, cs, known) {
			return 0, nil
		}
		return 0, r.withdraw(ctx, s, key)
	}
	header := packages.HeaderOf(sourceOf(cs), snap)
	if known.Digest == header.Digest {
		if wait, again := r.untilAgain(key, header.Digest); !again || wait > 0 {
			return wait, nil
		}
	}
	if wait := r.wait(s, key, has); wait > 0 {
		return wait, nil
	}
	if err := r.sendContent(ctx, s, key, Known{Digest: header.Digest, UID: cs.GetUID()}, header, snap); err != nil {
		return 0, err
	}
	wait, _ = r.untilAgain(key, header.Digest)
	return wait, nil
}

// sendContent sends a catalog's content, and determines when the next version can be sent. now is what package-server has
// afterwards, or has refused.
func (r *Reconciler) sendContent(ctx context.Context, s *session, key types.NamespacedName, now Known, header packages.Header, snap *catalog.Snapshot) error {
	begun := s.frees(key)
	result, err := r.put(ctx, key, header, snap)
	if err != nil {
		return err
	}
	s.set(key, now)
	pause := r.interval
	switch {
	case result.refusal == "":
		s.resize(key, result.size)
	case result.isFull:
		s.refuse(key, begun)
		pause *= refusedFactor
	}
	r.noteIncomplete(key, now.Digest, result.isIncomplete)
	r.earliest.Set(key, time.Now().Add(pause))
	r.setRefusal(s, key, result.refusal)
	return nil
}

func (r *Reconciler) setRefusal(s *session, key types.NamespacedName, reason string) {
	if s.setRefusal(key, reason) {
		r.notify(key)
	}
}

// isKept reports whether package-server has the content of a CatalogSource from an earlier process, and this process is still
// loading it.
func (r *Reconciler) isKept(key types.NamespacedName, cs client.Object, known Known) bool {
	return cs.GetDeletionTimestamp() == nil && known.UID == cs.GetUID() && r.Catalogs.IsLoading(key)
}

func (r *Reconciler) isGlobal(key types.NamespacedName) bool {
	return key.Namespace == r.GlobalNamespace
}

// pause returns how long to wait before the catalog can be sent again. Global catalogs do not wait.
func (r *Reconciler) pause(key types.NamespacedName) time.Duration {
	if r.isGlobal(key) {
		return 0
	}
	return time.Until(r.earliest.Get(key))
}

// remove removes a catalog from package-server.
func (r *Reconciler) remove(ctx context.Context, s *session, key types.NamespacedName) error {
	r.earliest.Delete(key)
	r.incomplete.Delete(key)
	if err := r.Server.Delete(ctx, key); err != nil {
		return err
	}
	s.set(key, Known{})
	s.resize(key, 0)
	r.setRefusal(s, key, "")
	return nil
}

// result is the result of sending a catalog.
type result struct {
	// size is the number of bytes of a catalog that was stored.
	size int64
	// refusal is why package-server refused the catalog, if it did. isFull means that it has no room. Such a catalog is sent again
	// when it changes or there may be room, another refused one only when it changes.
	refusal string
	isFull  bool
	// isIncomplete means that descriptions are missing because reading them took too long.
	isIncomplete bool
}

// put streams a catalog to package-server while its packages are being described.
func (r *Reconciler) put(ctx context.Context, key types.NamespacedName, header packages.Header, snap *catalog.Snapshot) (result, error) {
	limits := packages.TenantLimits()
	if r.isGlobal(key) {
		limits = packages.GlobalLimits()
	}
	reading, _, cancel := turns.WithTimeout(ctx, describeTimeout, describeWait, context.DeadlineExceeded)
	defer cancel()
	body, to := io.Pipe()
	done := make(chan packages.Written, 1)
	go func() {
		written, err := packages.Write(reading, to, header, snap, limits)
		_ = to.CloseWithError(err) // always succeeds
		done <- written
	}()
	err := r.Server.Put(ctx, key, body)
	_ = body.Close() // always succeeds, and ends Write
	written := <-done
	log := ctrl.LoggerFrom(ctx)
	switch {
	case apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err):
		log.Info("The packages of the catalog cannot be listed", "reason", err.Error())
		return result{refusal: strings.TrimPrefix(err.Error(), "Request entity too large: "), isFull: apierrors.IsRequestEntityTooLargeError(err)}, nil
	case err != nil:
		return result{}, fmt.Errorf("send packages: %w", err)
	}
	log.V(1).Info("Sent the packages of the catalog", "packages", len(snap.Packages)-written.Omitted)
	if written.Omitted > 0 {
		log.Info("The catalog has too many packages to list all of them", "omitted", written.Omitted)
	}
	return result{size: written.Bytes, isIncomplete: written.IsIncomplete}, nil
}

func newObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind))
	return u
}

// sourceOf returns the fields of a CatalogSource that PackageManifests contain.
func sourceOf(cs *unstructured.Unstructured) packages.Source {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(cs.Object, "spec", field)
		return value[:min(len(value), maxText)]
	}
	priority, _, _ := unstructured.NestedInt64(cs.Object, "spec", "priority")
	return packages.Source{
		Namespace: cs.GetNamespace(), Name: cs.GetName(), UID: cs.GetUID(), Labels: packages.Inherited(cs.GetLabels()), Created: cs.GetCreationTimestamp(),
		DisplayName: text("displayName"), Publisher: text("publisher"), Priority: int(priority),
	}
}

// maxText bounds the length of each text of a CatalogSource that is sent.
const maxText = 1024
