package controller

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/decoding"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/version"
)

// ManagerOptions contains the options of NewManager, which all programs use.
type ManagerOptions struct {
	// UserAgent, with the version, identifies the program in audit logs, and is the name of the leader election Lease.
	UserAgent string
	// Namespace contains the leader election Lease and the Secret with the proof keys.
	Namespace string
	// MetricsAddress and HealthAddress have the form host:port; "0" or "" disables the endpoint.
	MetricsAddress string
	HealthAddress  string
	// LeaderElection allows running several replicas, of which only one is active.
	LeaderElection bool
	// LeaseDuration is how long the other replicas wait, after the leader last renewed its Lease, before one of them becomes the
	// leader. The default is DefaultLeaseDuration.
	LeaseDuration time.Duration
	// Journal records what the program's controllers work on; it may be nil.
	Journal *journal.Journal
	// Trim removes from an object what the program's controllers do not read from the cache; nil means Trim. It may be called
	// twice for an object.
	Trim func(client.Object)
}

// DefaultLeaseDuration is the default of controller-runtime and of Kubernetes' own components.
const DefaultLeaseDuration = 15 * time.Second

// cacheSyncTimeout is how long a program waits for its caches to be read before it ends. A program that ends begins again, so a time that
// is too short would stop it as long as the objects are stored. Reading makes progress: an object has at most budget.MaxObjectBytes,
// and one that cannot be decoded takes only a few times as long as another (package decoding), which is less than 0.2 s.
// Handlers of watches count, too: each must see all existing objects in this time (kit.DropExisting).
const cacheSyncTimeout = 10 * time.Minute

// renewal returns how long the leader tries to renew its Lease before it exits, and how often each replica tries to renew or
// acquire the Lease. The ratios are those of controller-runtime's defaults: 15 s, 10 s and 2 s.
func renewal(lease time.Duration) (deadline, retry time.Duration) {
	return lease * 2 / 3, lease * 2 / 15
}

// NewManager returns a manager whose cache does not contain copied ClusterServiceVersions, nor what o.Trim removes.
func NewManager(config *rest.Config, o ManagerOptions) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.UserAgent = version.UserAgent(o.UserAgent)
	config.Wrap(decoding.Tolerant(scheme))
	config.Wrap(version.WithUserAgent(config.UserAgent)) // leader election would send the name of the executable
	config.QPS = -1                                      // API Priority and Fairness limits the request rate
	lease := cmp.Or(o.LeaseDuration, DefaultLeaseDuration)
	deadline, retry := renewal(lease)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see servePorts
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              o.UserAgent,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &deadline,
		RetryPeriod:                   &retry,
		MapperProvider:                newMapper,
		Controller:                    ctrlconfig.Controller{CacheSyncTimeout: cacheSyncTimeout},
		Cache: cache.Options{
			DefaultTransform: transform(o.Trim),
			ByObject: map[client.Object]cache.ByObject{
				&operatorsv1alpha1.ClusterServiceVersion{}: {Label: kit.IsNotCopied()}, // for copies, see kit.NewCopies
				&corev1.Secret{}: { // this program is not allowed to read any other Secret (docs/adr/0019)
					Namespaces: map[string]cache.Config{o.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", names.SecretProof)}},
				},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := servePorts(mgr, o); err != nil {
		return nil, err
	}
	if err := mgr.Add(reporting(mgr.GetEventRecorder(o.UserAgent), mgr.GetAPIReader(), o.Journal)); err != nil {
		return nil, fmt.Errorf("add the report of suspended objects: %w", err)
	}
	return journaled{mgr, o.Journal}, nil
}

// discoveryTimeout bounds the requests of the mapper, which block other callers whose kind is not cached. The backend of an APIService can
// take as long as the API server allows.
const discoveryTimeout = 10 * time.Second

// newMapper returns the mapper of the manager.
func newMapper(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	limited := *c
	limited.Timeout = discoveryTimeout
	mapper, err := apiutil.NewDynamicRESTMapper(config, &limited)
	if err != nil {
		return nil, fmt.Errorf("mapper: %w", err)
	}
	return mapper, nil
}

// NewScheme returns a scheme with all kinds that the controllers use as Go types.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
		operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv2.AddToScheme, olmv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	return scheme, nil
}

// OwnNamespace returns the namespace that a program runs in: the value of OPERATOR_NAMESPACE or, if it is empty, the
// namespace of the program's Pod. Outside a Pod, it returns the default namespace of the manifests.
func OwnNamespace() string {
	if ns := os.Getenv("OPERATOR_NAMESPACE"); ns != "" {
		return ns
	}
	if raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(raw))
	}
	return names.DefaultNamespace
}

// LoadConfig reads the kubeconfig at path or, if path is empty, the default kubeconfig (KUBECONFIG or ~/.kube/config).
// If there is no default kubeconfig, it uses the Pod's ServiceAccount.
func LoadConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}
