package clusterextension_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
	"github.com/remit-olm/remit/test/env/proofs"
)

// home is the namespace of the program under test.
const home = "remit"

// controllerRules returns the cluster-wide permissions that the controller identity has in these tests: those that this
// controller needs, and no others.
func controllerRules() []rbacv1.PolicyRule {
	rule := func(group, resources, verbs string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Fields(resources), Verbs: strings.Fields(verbs)}
	}
	return []rbacv1.PolicyRule{
		rule("olm.operatorframework.io", "clusterextensions clustercatalogs", "get list watch"),
		rule("olm.operatorframework.io", "clusterextensions clusterextensions/status", "patch"),
		rule("rbac.authorization.k8s.io", "roles rolebindings clusterroles clusterrolebindings", "get list watch"),
		rule("", "serviceaccounts namespaces", "get list watch"),
		rule("apiextensions.k8s.io", "customresourcedefinitions", "get list watch"),
		rule("apiregistration.k8s.io", "apiservices", "get list watch"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		rule("events.k8s.io", "events", "create patch"),
	}
}

// labelProgram is the label of a ClusterExtension that names the program responsible for it, if that is not the shared one.
const labelProgram = "test.remit.dev/program"

// program runs the controller. All programs use the control plane of this package, but each is responsible only for the
// extensions that it selects.
type program struct {
	*controlplane.Instance
	admin   client.WithWatch
	store   *catalog.Store
	selects string
	// provider issues certificates.
	provider serving.Provider
	// grace is the grace period for permissions that exceed an identity; 0 means the default.
	grace time.Duration
	// cache is that of the running controller, or nil.
	cache client.Reader
}

// private returns a program, which is not running yet, for the extensions whose label contains the program's name.
func (p *program) private(name string) *program {
	return &program{Instance: p.Instance, admin: p.admin, store: &catalog.Store{}, selects: labelProgram + "=" + name}
}

// parallel is the number of tests that run concurrently. It does not depend on the number of cores, because the tests
// mostly wait.
const parallel = "6"

var shared struct {
	sync.Mutex
	instance *controlplane.Instance
	program  *program
	stop     func()
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, "clusterextension:", err)
		os.Exit(1)
	}
	ctrl.SetLogger(logging())
	code := m.Run()
	if shared.stop != nil {
		shared.stop()
	}
	if shared.instance != nil {
		_ = shared.instance.Stop()
	}
	os.Exit(code)
}

// running returns the shared program.
func running(t *testing.T) *program {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.program == nil {
		var err error
		shared.instance, err = controlplane.Launch(context.Background(), controlplane.Options{})
		require.NoError(t, err)
		p := prepare(t, shared.instance)
		shared.stop = p.run(t)
		shared.program = p
	}
	return shared.program
}

// prepare installs the API and the controller identity.
func prepare(t *testing.T, cp *controlplane.Instance) *program {
	t.Helper()
	p := &program{Instance: cp, admin: crds.Install(t, cp.Config()), store: &catalog.Store{}, selects: "!" + labelProgram}
	subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: names.ServiceAccountExtension}
	meta := metav1.ObjectMeta{Name: names.ServiceAccountExtension}
	own := metav1.ObjectMeta{Name: meta.Name, Namespace: home}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}},
		&corev1.ServiceAccount{ObjectMeta: own},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: controllerRules()},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: meta.Name}, Subjects: []rbacv1.Subject{subject}},
		&rbacv1.Role{ObjectMeta: own, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: own, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{subject}},
	} {
		require.NoError(t, client.IgnoreAlreadyExists(p.admin.Create(t.Context(), obj)))
	}
	for _, image := range []string{"works", "works2"} {
		require.NoError(t, cp.MapImage("images.test/"+image, "/bin/sleep"))
	}
	// A Pod without probes is ready while its process runs, even if only for a moment. This file cannot be executed.
	require.NoError(t, cp.MapImage("images.test/fails", os.DevNull))
	return p
}

// run runs the controller until the returned function is called.
func (p *program) run(t *testing.T, edits ...func(*rest.Config)) (stop func()) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: names.ServiceAccountExtension}}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(7200))}}
	require.NoError(t, p.admin.SubResource("token").Create(t.Context(), account, token))
	self := rest.AnonymousClientConfig(p.Config())
	self.BearerToken, self.QPS, self.UserAgent = token.Status.Token, -1, "remit-extension"
	for _, edit := range edits {
		edit(self)
	}
	mgr := p.newManager(t, self)
	ctx, cancel := context.WithCancel(context.Background())
	r := p.reconciler(ctx, t, mgr)
	require.NoError(t, r.SetupWithManager(mgr, p.published(r), changes(mgr, r)))
	ended := make(chan error, 1)
	p.cache = mgr.GetCache()
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		p.cache = nil
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

func (p *program) newManager(t *testing.T, self *rest.Config) ctrl.Manager {
	t.Helper()
	scheme := proofs.Scheme()
	require.NoError(t, olmv1.AddToScheme(scheme))
	selected, err := labels.Parse(p.selects)
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(self, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{&olmv1.ClusterExtension{}: {Label: selected}},
		},
	})
	require.NoError(t, err)
	return mgr
}

func (p *program) reconciler(ctx context.Context, t *testing.T, mgr ctrl.Manager) *clusterextension.Reconciler {
	t.Helper()
	listers := listersOf(ctx, t, mgr)
	clients, err := scoped.NewClients(scoped.Options{Base: mgr.GetConfig(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	require.NoError(t, err)
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	require.NoError(t, err)
	r, err := clusterextension.New(clusterextension.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clients: clients, Catalogs: p.store, RBAC: listers, Proofs: proofs.Keys(),
		ControllerIdentity: rbac.ServiceAccount(home, names.ServiceAccountExtension), Recorder: mgr.GetEventRecorder("remit-extension"), Namespace: home, Provider: p.provider, Grace: p.grace,
		ServerVersion: func() (string, error) {
			version, err := disco.ServerVersion()
			if err != nil {
				return "", err
			}
			return version.GitVersion, nil
		},
	})
	require.NoError(t, err)
	return r
}

// listersOf returns listers of the manager's informers.
func listersOf(ctx context.Context, t *testing.T, mgr ctrl.Manager) rbac.Listers {
	t.Helper()
	index := func(kind client.Object, by toolscache.Indexers) toolscache.Indexer {
		informer, err := mgr.GetCache().GetInformer(ctx, kind)
		require.NoError(t, err)
		shared, ok := informer.(toolscache.SharedIndexInformer)
		require.True(t, ok)
		require.NoError(t, shared.AddIndexers(by))
		return shared.GetIndexer()
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(index(&rbacv1.Role{}, nil)), ClusterRoles: rbacv1listers.NewClusterRoleLister(index(&rbacv1.ClusterRole{}, nil)),
		RoleBindings:        rbac.NewRoleBindingLister(index(&rbacv1.RoleBinding{}, rbac.BindingIndexers())),
		ClusterRoleBindings: rbac.NewClusterRoleBindingLister(index(&rbacv1.ClusterRoleBinding{}, rbac.BindingIndexers())),
	}
}

// published enqueues the extensions that a change to a catalog may affect.
func (p *program) published(r *clusterextension.Reconciler) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		p.store.Watch(func(change catalog.Change) {
			for _, req := range r.Using(ctx, change) {
				queue.Add(req)
			}
		})
		return nil
	})
}

// changes enqueues the extensions that a change to RBAC, a ServiceAccount or a Namespace affects.
func changes(mgr ctrl.Manager, r *clusterextension.Reconciler) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		kinds := []client.Object{
			&corev1.ServiceAccount{}, &corev1.Namespace{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
		}
		return kit.OnChange(ctx, mgr.GetCache(), kinds, func(before, after client.Object) {
			for _, req := range r.Concerned(ctx, before, after) {
				queue.Add(req)
			}
		})
	})
}

const (
	patience = 3 * time.Minute // far longer than needed on an idle machine
	tick     = 50 * time.Millisecond
)

// logging returns the logger of the controller: none, unless VERBOSE is set.
func logging() logr.Logger {
	if os.Getenv("VERBOSE") == "" {
		return logr.Discard()
	}
	return funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{Verbosity: 1})
}
