package packagemanifest

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/remit-olm/remit/pkg/packages"
)

const (
	controllerName = "packagemanifest"
	// workers bounds the number of catalogs that are sent concurrently.
	workers = 4
	// describeTimeout bounds the time for reading the descriptions of one catalog, because registries may be slow.
	describeTimeout = 30 * time.Second
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
	// sent contains the catalogs that this process has sent. Such a catalog is removed from package-server when its
	// content is withdrawn. A catalog that only an earlier process has sent is kept, because its content may still be
	// loading.
	sent keyed.Map[types.NamespacedName, bool]
	// interval is tenantInterval, except in tests. earliest contains when the next version of a catalog may be sent.
	interval time.Duration
	earliest keyed.Map[types.NamespacedName, time.Time]
	removed  removals
}

// New returns a Reconciler.
func New(o Options) (*Reconciler, error) {
	if o.Cache == nil || o.Catalogs == nil || o.Server == nil || o.GlobalNamespace == "" {
		return nil, errors.New("packagemanifest: Cache, Catalogs, Server and GlobalNamespace are required")
	}
	r := &Reconciler{Options: o, waker: &kit.Waker{}, interval: tenantInterval}
	r.sessions = &sessions{server: o.Server, keys: r.keys, wake: r.waker.Wake, available: r.available, isGlobal: r.isGlobal, changed: make(chan struct{}, 1)}
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
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(newObject(), &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.LabelChangedPredicate{}))).
		WatchesRawSource(catalogs).
		WatchesRawSource(source.Func(r.waker.Start)).
		WithOptions(fairqueue.Options(workers, fairqueue.RetryLimiter(fairqueue.LastRetry))).
		Complete(r)
}

// apiService is the name of the APIService of package-server.
const apiService = "v1.packages.operators.coreos.com"

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
		if !has || err == nil && r.isLoading(key, cs, known) {
			return 0, nil
		}
		return 0, r.withdraw(ctx, s, key)
	}
	r.sent.Set(key, true)
	header := packages.HeaderOf(sourceOf(cs), snap)
	if known.Digest == header.Digest {
		return 0, nil
	}
	if wait := r.wait(s, key, has); wait > 0 {
		return wait, nil
	}
	return 0, r.sendContent(ctx, s, key, Known{Digest: header.Digest, UID: cs.GetUID()}, header, snap)
}

// sendContent sends a catalog's content, and determines when the next version can be sent. now is what package-server has
// afterwards.
func (r *Reconciler) sendContent(ctx context.Context, s *session, key types.NamespacedName, now Known, header packages.Header, snap *catalog.Snapshot) error {
	begun := s.frees(key)
	size, refused, err := r.put(ctx, key, header, snap)
	if err != nil {
		return err
	}
	s.set(key, now)
	pause := r.interval
	if refused {
		pause *= refusedFactor
	}
	r.earliest.Set(key, time.Now().Add(pause))
	if refused && !s.refuse(key, begun) {
		r.waker.Wake(key) // there may be room now; a tenant's catalog is sent after the pause
	}
	if size > 0 {
		r.resized(s, key, size)
	}
	return nil
}

// resized records the size of a catalog that was sent or removed, and wakes catalogs that may fit now.
func (r *Reconciler) resized(s *session, key types.NamespacedName, size int64) {
	for _, other := range s.resize(key, size) {
		r.waker.Wake(other)
	}
}

// isLoading reports whether package-server has the content of a CatalogSource that is being loaded for the first time since the
// program started.
func (r *Reconciler) isLoading(key types.NamespacedName, cs client.Object, known Known) bool {
	return cs.GetDeletionTimestamp() == nil && known.UID == cs.GetUID() && !r.sent.Get(key)
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
	r.sent.Delete(key)
	r.earliest.Delete(key)
	if err := r.Server.Delete(ctx, key); err != nil {
		return err
	}
	s.set(key, Known{})
	r.resized(s, key, 0)
	return nil
}

// put streams a catalog to package-server while its packages are being described. It returns the number of bytes, and
// whether package-server has no room for the catalog, which is sent again when it changes or there may be room. A catalog
// that package-server rejects for another reason is not sent again until it changes.
func (r *Reconciler) put(ctx context.Context, key types.NamespacedName, header packages.Header, snap *catalog.Snapshot) (size int64, refused bool, err error) {
	limits := packages.TenantLimits()
	if r.isGlobal(key) {
		limits = packages.GlobalLimits()
	}
	reading, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	body, to := io.Pipe()
	done := make(chan packages.Written, 1)
	go func() {
		written, err := packages.Write(reading, to, header, snap, limits)
		_ = to.CloseWithError(err) // always succeeds
		done <- written
	}()
	err = r.Server.Put(ctx, key, body)
	_ = body.Close() // always succeeds, and ends Write
	written := <-done
	log := ctrl.LoggerFrom(ctx)
	switch {
	case apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsBadRequest(err):
		log.Info("The packages of the catalog cannot be listed", "reason", err.Error())
		return 0, apierrors.IsRequestEntityTooLargeError(err), nil
	case err != nil:
		return 0, false, fmt.Errorf("send packages: %w", err)
	}
	log.V(1).Info("Sent the packages of the catalog", "packages", len(snap.Packages)-written.Omitted)
	if written.Omitted > 0 {
		log.Info("The catalog has too many packages to list all of them", "omitted", written.Omitted)
	}
	return written.Bytes, false, nil
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
		Namespace: cs.GetNamespace(), Name: cs.GetName(), UID: cs.GetUID(), Labels: cs.GetLabels(), Created: cs.GetCreationTimestamp(),
		DisplayName: text("displayName"), Publisher: text("publisher"), Priority: int(priority),
	}
}

// maxText bounds the length of each text of a CatalogSource that is sent.
const maxText = 1024
