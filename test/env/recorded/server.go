package recorded

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// Server stores objects and records requests.
type Server struct {
	t      testing.TB
	scheme *runtime.Scheme
	store  client.WithWatch
	mapper *meta.DefaultRESTMapper
	rbac   map[string]toolscache.Indexer
	// allowed contains the "<verb> <resource>" pairs that SubjectAccessReviews allow.
	allowed map[string]bool
	// lagging contains the outdated objects that caches return.
	lagging map[string]client.Object
	lastUID atomic.Int64

	mu       sync.Mutex
	refusals map[string]error
	before   map[string]func()
	writes   []string
	requests []string
}

// New returns a Server with the objects. index adds the indexes of the reconciler's cache; it may be nil.
func New(t testing.TB, index func(context.Context, client.FieldIndexer) error, objects ...client.Object) *Server {
	t.Helper()
	s := &Server{
		t: t, scheme: proofs.Scheme(), allowed: map[string]bool{}, lagging: map[string]client.Object{},
		refusals: map[string]error{}, before: map[string]func(){}, rbac: map[string]toolscache.Indexer{},
	}
	require.NoError(t, operatorsv1.AddToScheme(s.scheme))
	require.NoError(t, operatorsv2.AddToScheme(s.scheme))
	s.mapper = mapper(s.scheme)
	builder := fake.NewClientBuilder().WithScheme(s.scheme).WithRESTMapper(s.mapper).
		WithObjectTracker(clienttesting.NewObjectTracker(s.scheme, serializer.NewCodecFactory(s.scheme).UniversalDecoder())). // tracking managed fields is slow
		WithStatusSubresource(&operatorsv1alpha1.ClusterServiceVersion{}, &operatorsv1alpha1.InstallPlan{}, &operatorsv1alpha1.Subscription{},
			&operatorsv1.OperatorGroup{}, &operatorsv1.Operator{}, &operatorsv2.OperatorCondition{})
	if index != nil {
		require.NoError(t, index(t.Context(), Indexes{builder}))
	}
	s.store = builder.Build()
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		s.rbac[kind] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	s.Put(objects...)
	return s
}

// Indexes adds the indexes of a reconciler to a fake client.
type Indexes struct{ Builder *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i Indexes) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	i.Builder.WithIndex(obj, field, extract)
	return nil
}

// mapper returns a RESTMapper for the kinds of the scheme.
func mapper(scheme *runtime.Scheme) *meta.DefaultRESTMapper {
	root := map[string]bool{
		"Namespace": true, "ClusterRole": true, "ClusterRoleBinding": true, "CustomResourceDefinition": true, "APIService": true,
		"ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true, "PriorityClass": true,
		"Operator": true, "ClusterExtension": true,
	}
	out := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if root[gvk.Kind] {
			scope = meta.RESTScopeRoot
		}
		out.Add(gvk, scope)
	}
	return out
}

// RBAC returns listers of the stored RBAC objects.
func (s *Server) RBAC() rbac.Listers {
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(s.rbac["Role"]), RoleBindings: rbacv1listers.NewRoleBindingLister(s.rbac["RoleBinding"]),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(s.rbac["ClusterRole"]), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(s.rbac["ClusterRoleBinding"]),
	}
}

// Put creates or replaces objects with their statuses, as another program would.
func (s *Server) Put(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		obj, ok := obj.DeepCopyObject().(client.Object)
		require.True(s.t, ok)
		live, ok := obj.DeepCopyObject().(client.Object)
		require.True(s.t, ok)
		err := s.store.Get(s.t.Context(), client.ObjectKeyFromObject(obj), live)
		require.NoError(s.t, client.IgnoreNotFound(err))
		if err != nil {
			s.initialize(obj)
			require.NoError(s.t, s.store.Create(s.t.Context(), obj.DeepCopyObject().(client.Object)))
			require.NoError(s.t, s.store.Get(s.t.Context(), client.ObjectKeyFromObject(obj), live))
		}
		whole := obj.DeepCopyObject().(client.Object) // responses omit fields that a request does not write
		obj.SetResourceVersion(live.GetResourceVersion())
		require.NoError(s.t, s.store.Update(s.t.Context(), obj))
		whole.SetResourceVersion(obj.GetResourceVersion())
		require.NoError(s.t, client.IgnoreNotFound(s.store.Status().Update(s.t.Context(), whole))) // NotFound means that the kind has no such subresource
		s.index(obj)
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			s.serve(crd)
		}
	}
}

// serve adds the kinds of a definition to the RESTMapper.
func (s *Server) serve(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		version := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}
		s.mapper.AddSpecific(version.WithKind(crd.Spec.Names.Kind), version.WithResource(crd.Spec.Names.Plural), version.WithResource(crd.Spec.Names.Singular), meta.RESTScopeNamespace)
	}
}

// initialize sets the fields that the API server sets on a new object.
func (s *Server) initialize(obj client.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", s.lastUID.Add(1))))
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	if obj.GetGeneration() == 0 {
		obj.SetGeneration(1)
	}
}

// Edit changes a stored object, as another program would.
func Edit[T client.Object](s *Server, obj T, edit func(T)) {
	s.t.Helper()
	s.Get(obj)
	edit(obj)
	s.Put(obj)
}

// Lag makes Cached clients return an object in its current state, regardless of later changes.
func (s *Server) Lag(obj client.Object) {
	s.t.Helper()
	s.Get(obj)
	s.lagging[s.kind(obj)+" "+name(client.ObjectKeyFromObject(obj))] = obj
}

// Get reads a stored object.
func (s *Server) Get(obj client.Object) {
	s.t.Helper()
	require.NoError(s.t, s.store.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj))
}

// Delete deletes stored objects, as another program would. Objects with finalizers are only marked for deletion.
func (s *Server) Delete(objects ...client.Object) {
	s.t.Helper()
	for _, obj := range objects {
		require.NoError(s.t, s.store.Delete(s.t.Context(), obj))
		s.index(obj)
	}
}

// index updates the RBAC listers if the object is an RBAC object.
func (s *Server) index(obj client.Object) {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil || gvk.Group != rbacv1.GroupName {
		return
	}
	list, err := s.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	require.NoError(s.t, err)
	require.NoError(s.t, s.store.List(context.Background(), list.(client.ObjectList)))
	items, err := meta.ExtractList(list)
	require.NoError(s.t, err)
	all := make([]any, 0, len(items))
	for _, item := range items {
		all = append(all, item)
	}
	require.NoError(s.t, s.rbac[gvk.Kind].Replace(all, ""))
}

// Refuse makes the request with this recorded text fail.
func (s *Server) Refuse(request string, err error) { s.refusals[request] = err }

// Before calls a function once, before the first request with this recorded text is handled.
func (s *Server) Before(request string, do func()) { s.before[request] = do }

// Allow makes the API server's other authorizers allow "<verb> <resource>".
func (s *Server) Allow(what ...string) {
	for _, w := range what {
		s.allowed[w] = true
	}
}

// Writes returns the recorded writes and events, in order, and forgets them.
func (s *Server) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.writes
	s.writes = nil
	return out
}

// Requests returns the recorded requests that are not writes, sorted and without duplicates, and forgets them. These
// are uncached reads, dry runs and SubjectAccessReviews.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	slices.Sort(out)
	return slices.Compact(out)
}

// Has reads a stored object and reports whether it exists.
func (s *Server) Has(obj client.Object) bool {
	s.t.Helper()
	err := s.store.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj)
	require.NoError(s.t, client.IgnoreNotFound(err))
	return err == nil
}
