package scopedcache

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// KindOptions are the options of one kind.
type KindOptions struct {
	// Transform replaces Options.Transform for the kind.
	Transform toolscache.TransformFunc
	// Label restricts all watches of the kind to objects that match this selector.
	Label labels.Selector
	// UnsafeDisableDeepCopy makes reads return the stored objects without copying them. Callers must not modify them.
	UnsafeDisableDeepCopy *bool
}

// UncoveredPolicy determines what happens to a read that has no owner and that no claim covers.
type UncoveredPolicy int

const (
	// FailUncovered makes the read return a *NotCoveredError.
	FailUncovered UncoveredPolicy = iota
	// ReadUncovered sends the read to the API server and does not cache the result.
	ReadUncovered
)

// Options are the options of a Cache. The zero value of each field selects its default.
type Options struct {
	// Scheme contains the Go types of kinds. The default is client-go's scheme.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources. The default is controller-runtime's dynamic RESTMapper.
	Mapper meta.RESTMapper
	// HTTPClient sends the requests. The default is created from the configuration.
	HTTPClient *http.Client
	// SyncPeriod is how often handlers receive all objects again. The default is that of controller-runtime, 10 hours.
	SyncPeriod *time.Duration
	// ByKind contains options for specific kinds; the key is an object of the kind. Options also apply to other
	// representations of the kind that have no separate options.
	ByKind map[client.Object]KindOptions
	// Transform changes each object before it is stored or delivered to handlers, for example to drop unused fields. The kind
	// of the object is set, even if the object is typed. Transform must keep the object's type, namespace, name, UID and
	// resource version. Because it may be called again for an object that it has changed, it must be idempotent. If it returns
	// an error for an object in a list, the list fails and is retried. If it returns an error for a change, the cache keeps
	// the previous state of the object. Deletions are reported even if it returns an error.
	Transform toolscache.TransformFunc

	// Primary kinds are those that the operator reconciles. GetInformer, which a controller's For calls, claims them
	// cluster-wide. It does not claim other kinds.
	Primary []client.Object
	// Static claims last as long as the cache.
	Static []Claim
	// Uncovered determines what happens to a read that has no owner and that no claim covers.
	Uncovered UncoveredPolicy
	// PartialList makes a List that cannot read all objects return the others together with a *GapError, instead of
	// only the first error.
	PartialList bool
	// KeepOwners keeps the claims of an owner of a primary kind when the owner is deleted.
	KeepOwners bool

	// ReadTimeout is how long a read waits in total for first lists, unless its context ends earlier. It defaults to 10
	// s.
	ReadTimeout time.Duration
	// Linger is how long a watch continues after its last claim is released. The default is 5 s; a negative value means 0.
	Linger time.Duration
	// RecheckPeriod is how often a watch is requested again, which makes the API server check permissions. The default is one
	// minute, or up to five minutes with more than 2,000 watches. A watch lasts at least 1.1 s. With a negative value, only
	// the API server ends watches, after five to ten minutes.
	RecheckPeriod time.Duration
	// Retry is the backoff for refused and failed watches. By default, it starts at 1 s and doubles up to 60 s.
	Retry Retry
	// ProbeQPS limits how many refused watches the cache retries per second. Owners take turns. The default is 5. After
	// hints (WatchRBAC, Recheck and ReportForbidden), up to 100 additional watches are retried at once, and then up to
	// ProbeQPS additional watches per second. Retries that succeed do not count.
	ProbeQPS float32
	// Concurrency limits how many first lists run at the same time. The default is 64. Owners take turns, and one kind uses at most
	// half of the limit. A list that takes longer than 5 s no longer counts.
	Concurrency int
	// WatchRBAC watches roles and bindings, if the identity is allowed to, to notice grants and revocations immediately.
	// Changes are only hints: the API server decides whether a permission exists.
	WatchRBAC bool
	// CoalesceObjects is the number of claimed single objects of a kind in a namespace above which the cache watches the
	// namespace instead, if that is allowed. 0 means never.
	CoalesceObjects int
	// Metrics is the registry for metrics. If it is nil, metrics are not registered.
	Metrics prometheus.Registerer

	// limits is defaultLimits except in tests.
	limits limits
}

// rememberedOwners is the number of deleted owners that the cache records.
const rememberedOwners = 10_000

// recheckRate is the target number of watches per second that are requested again with the default Options.RecheckPeriod.
const recheckRate = 33

func (o Options) linger() time.Duration { return max(0, o.Linger) }

// timeForRetries returns the time in which ProbeQPS allows a number of retries. It is at most one year.
func (o Options) timeForRetries(retries int) time.Duration {
	const year = 365 * 24 * time.Hour
	return time.Duration(min(float64(retries)/float64(o.ProbeQPS), year.Seconds()) * float64(time.Second))
}

func (o Options) withDefaults(config *rest.Config) (Options, error) {
	var err error
	if o.limits == (limits{}) {
		o.limits = defaultLimits()
	}
	if o.HTTPClient == nil {
		if o.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return o, err
		}
	}
	discovering := *o.HTTPClient
	discovering.Timeout = o.limits.discovery
	if o.Mapper == nil {
		if o.Mapper, err = apiutil.NewDynamicRESTMapper(config, &discovering); err != nil {
			return o, err
		}
	}
	o.Mapper = newMapper(config, &discovering, o.Mapper)
	if o.Linger == 0 {
		o.Linger = 5 * time.Second
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 10 * time.Second
	}
	if o.Retry.Initial == 0 {
		o.Retry.Initial = time.Second
	}
	if o.Retry.Max == 0 {
		o.Retry.Max = time.Minute
	}
	if o.ProbeQPS == 0 {
		o.ProbeQPS = 5
	}
	if o.Concurrency == 0 {
		o.Concurrency = 64
	}
	return o, nil
}

func (o Options) merge(from cache.Options) (Options, error) {
	if err := unsupported(from); err != nil {
		return o, err
	}
	o.Scheme = cmp.Or(o.Scheme, from.Scheme)
	o.HTTPClient = cmp.Or(o.HTTPClient, from.HTTPClient)
	o.SyncPeriod = cmp.Or(o.SyncPeriod, from.SyncPeriod)
	if o.Mapper == nil {
		o.Mapper = from.Mapper
	}
	if o.Transform == nil {
		o.Transform = from.DefaultTransform
	}
	byKind := map[client.Object]KindOptions{}
	maps.Copy(byKind, o.ByKind)
	for obj, by := range from.ByObject {
		byKind[obj] = KindOptions{Transform: by.Transform, Label: by.Label, UnsafeDisableDeepCopy: by.UnsafeDisableDeepCopy}
	}
	o.ByKind = byKind
	for namespace := range from.DefaultNamespaces {
		for _, obj := range o.Primary {
			o.Static = append(slices.Clip(o.Static), Claim{Kind: obj, Scope: Namespace(namespace)})
		}
	}
	return o, nil
}

// unsupported returns an error if an option is set that scopedcache does not support.
func unsupported(o cache.Options) error {
	switch {
	case o.DefaultFieldSelector != nil || o.DefaultLabelSelector != nil || o.DefaultWatchErrorHandler != nil || o.NewInformer != nil:
		return errors.New("scopedcache does not support default selectors, watch error handlers or NewInformer: use Options.ByKind")
	case o.DefaultUnsafeDisableDeepCopy != nil:
		return errors.New("scopedcache does not support DefaultUnsafeDisableDeepCopy: use Options.ByKind")
	case o.ReaderFailOnMissingInformer:
		return errors.New("scopedcache does not support ReaderFailOnMissingInformer: use Options.Uncovered")
	case withoutBookmarks(o):
		return errors.New("scopedcache does not support watches without bookmarks")
	}
	return unsupportedParts(o)
}

// unsupportedParts is like unsupported, but for the options of kinds and namespaces.
func unsupportedParts(o cache.Options) error {
	for obj, by := range o.ByObject {
		if by.Field != nil || by.Namespaces != nil {
			return fmt.Errorf("scopedcache does not support field selectors or namespaces for %T: use claims", obj)
		}
	}
	for namespace, by := range o.DefaultNamespaces {
		if by.LabelSelector != nil || by.FieldSelector != nil || by.Transform != nil || by.UnsafeDisableDeepCopy != nil {
			return fmt.Errorf("scopedcache does not support options of a namespace, as for %q: use Options.ByKind", namespace)
		}
	}
	return nil
}

// withoutBookmarks reports whether an option disables bookmarks.
func withoutBookmarks(o cache.Options) bool {
	enabled := []*bool{o.DefaultEnableWatchBookmarks}
	for _, by := range o.ByObject {
		enabled = append(enabled, by.EnableWatchBookmarks)
	}
	for _, by := range o.DefaultNamespaces {
		enabled = append(enabled, by.EnableWatchBookmarks)
	}
	return slices.ContainsFunc(enabled, func(b *bool) bool { return !ptr.Deref(b, true) })
}
