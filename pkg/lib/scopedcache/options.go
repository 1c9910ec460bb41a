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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// KindOptions are the options of one kind.
type KindOptions struct {
	// Transform changes each object before it is stored, for example to drop unused fields.
	Transform toolscache.TransformFunc
	// Label restricts all watches of the kind to the objects that it selects.
	Label labels.Selector
	// UnsafeDisableDeepCopy lets reads return the stored objects themselves. Readers must not change them.
	UnsafeDisableDeepCopy *bool
}

// UncoveredPolicy is what a read does that no claim covers and that has no owner.
type UncoveredPolicy int

const (
	// FailUncovered returns a *NotCoveredError.
	FailUncovered UncoveredPolicy = iota
	// ReadUncovered asks the API server and caches nothing.
	ReadUncovered
)

// Options are the options of a Cache. The zero value of each option is its default.
type Options struct {
	// Scheme has the types of typed objects. The default is client-go's scheme.
	Scheme *runtime.Scheme
	// Mapper finds the resources of kinds. The default is controller-runtime's dynamic RESTMapper.
	Mapper meta.RESTMapper
	// HTTPClient makes the requests. The default is made from the configuration.
	HTTPClient *http.Client
	// SyncPeriod is how often handlers hear again of all objects. The default is controller-runtime's, 10 hours.
	SyncPeriod *time.Duration
	// ByKind has the options of single kinds; the key is an object of the kind.
	ByKind map[client.Object]KindOptions

	// Primary kinds are those that the operator reconciles. GetInformer, and so For of a controller, claims them in the
	// whole cluster. For other kinds, it adds handlers only.
	Primary []client.Object
	// Static claims last as long as the cache.
	Static []Claim
	// Uncovered is what a read does that no claim covers and that has no owner.
	Uncovered UncoveredPolicy
	// PartialList lets a List return what it can, with a *GapError, instead of nothing with the first error.
	PartialList bool
	// KeepOwners turns off that the claims of an owner of a primary kind end when it is deleted.
	KeepOwners bool

	// ReadTimeout is the longest time that a read waits for its first list; 10 s by default. The context may end it
	// earlier.
	ReadTimeout time.Duration
	// Linger is how long a watch continues after its last claim was released; 5 s by default, less than 0 for not at all.
	Linger time.Duration
	// RecheckPeriod is how often a watch is requested again, which is when the API server checks permissions. The default
	// is a minute; more, up to five minutes, with more than 2,000 watches. Less than 0 leaves it to the API server, which
	// takes five to ten minutes.
	RecheckPeriod time.Duration
	// Retry is the backoff of refused and failed watches; by default it starts at 1 s and doubles up to 60 s.
	Retry Retry
	// ProbeQPS limits the retries of refused watches per second, for the whole cache; 5 by default.
	ProbeQPS float32
	// Concurrency is the number of first lists that run at once; 64 by default.
	Concurrency int
	// WatchRBAC watches roles and bindings, if the identity may, to notice grants and revocations at once. What it sees
	// is a hint only: whether a permission exists is for the server to say.
	WatchRBAC bool
	// CoalesceObjects is the number of single objects of a kind in a namespace above which the namespace is watched
	// instead, if that is allowed; 0 for never.
	CoalesceObjects int
	// Metrics is where metrics are registered; nowhere if nil.
	Metrics prometheus.Registerer
}

// rememberedOwners is how many deleted owners are remembered.
const rememberedOwners = 10_000

// Budget of the watches: at most so many are requested again in a second because of Options.RecheckPeriod.
const recheckRate = 33

func (o Options) linger() time.Duration { return max(0, o.Linger) }

func (o Options) withDefaults(config *rest.Config) (Options, error) {
	var err error
	if o.HTTPClient == nil {
		if o.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return o, err
		}
	}
	if o.Mapper == nil {
		if o.Mapper, err = apiutil.NewDynamicRESTMapper(config, o.HTTPClient); err != nil {
			return o, err
		}
	}
	o.Mapper = newMapper(config, o.HTTPClient, o.Mapper)
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
	if from.DefaultFieldSelector != nil || from.DefaultLabelSelector != nil || from.DefaultWatchErrorHandler != nil || from.NewInformer != nil || from.DefaultTransform != nil {
		return o, errors.New("scopedcache has no default selectors, transforms, watch error handlers or informers: use Options.ByKind")
	}
	o.Scheme = cmp.Or(o.Scheme, from.Scheme)
	o.HTTPClient = cmp.Or(o.HTTPClient, from.HTTPClient)
	o.SyncPeriod = cmp.Or(o.SyncPeriod, from.SyncPeriod)
	if o.Mapper == nil {
		o.Mapper = from.Mapper
	}
	byKind := map[client.Object]KindOptions{}
	maps.Copy(byKind, o.ByKind)
	for obj, by := range from.ByObject {
		if by.Field != nil || by.Namespaces != nil {
			return o, fmt.Errorf("scopedcache has no field selectors and namespaces for %T: use claims", obj)
		}
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
