package csv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestAVersionHasKeysForWhatItNames(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	spec := &csv.Spec.InstallStrategy.StrategySpec
	spec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{{Name: "manager"}, {}, {Name: strings.Repeat("x", 254)}}
	csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{DeploymentName: "hooks"}, {DeploymentName: "hooks"}, {DeploymentName: strings.Repeat("x", 1<<20)}}
	csv.Spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{DeploymentName: "api.server"}}
	spec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "sa"}, {ServiceAccountName: "other"}}
	spec.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "sa"}}
	want := []string{"deployment/manager", "service/hooks-service", "service/api-server-service", "serviceaccount/sa", "serviceaccount/other"}
	require.Equal(t, want, nameKeys(csv))

	for i := len(want); i < maxNames; i++ {
		spec.DeploymentSpecs = append(spec.DeploymentSpecs, operatorsv1alpha1.StrategyDeploymentSpec{Name: fmt.Sprint("d", i)})
	}
	require.Len(t, nameKeys(csv), maxNames)
	spec.Permissions = append(spec.Permissions, operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: "one-more"})
	require.Equal(t, []string{manyNames}, nameKeys(csv))
}

func TestLongListsAreNotIndexed(t *testing.T) {
	for i := range 5 {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		spec := &csv.Spec.InstallStrategy.StrategySpec
		of := func(i int, n int) int { // only the list of the case is long
			if i == 0 {
				return n
			}
			return 0
		}
		fill := func(n int) {
			spec.DeploymentSpecs = make([]operatorsv1alpha1.StrategyDeploymentSpec, of(i, n))
			csv.Spec.WebhookDefinitions = make([]operatorsv1alpha1.WebhookDescription, of(i-1, n))
			csv.Spec.APIServiceDefinitions.Owned = make([]operatorsv1alpha1.APIServiceDescription, of(i-2, n))
			spec.Permissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, of(i-3, n))
			spec.ClusterPermissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, of(i-4, n))
		}
		fill(maxCompared)
		require.Empty(t, nameKeys(csv), i)
		fill(maxCompared + 1)
		require.Equal(t, []string{manyNames}, nameKeys(csv), i)
	}
}

func TestAVersionHasKeysForWhatItNamesInTheCluster(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.Empty(t, clusterKeys(csv))
	spec := &csv.Spec
	spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "as.example.com"}, {}, {Name: strings.Repeat("x", 254)}}
	spec.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "bs.example.com"}}
	spec.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Version: "v1", Group: "example.com"}}
	spec.APIServiceDefinitions.Required = []operatorsv1alpha1.APIServiceDescription{{Version: "v1", Group: "other.com"}}
	spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{GenerateName: "hook.example.com"}}
	spec.NativeAPIs = []metav1.GroupVersionKind{{Kind: "Pod"}}
	want := []string{"native", "required", "definition/as.example.com", "definition/bs.example.com", "apiservice/v1.example.com", "configuration/hook.example.com"}
	require.Equal(t, want, clusterKeys(csv))

	for _, list := range []*[]operatorsv1alpha1.CRDDescription{&spec.CustomResourceDefinitions.Owned, &spec.CustomResourceDefinitions.Required} {
		was := *list
		*list = append(slices.Clone(was), make([]operatorsv1alpha1.CRDDescription, maxCompared-6)...)
		require.Equal(t, want, clusterKeys(csv))
		*list = append(*list, operatorsv1alpha1.CRDDescription{})
		require.Equal(t, []string{"native", "required", manyDefinitions}, clusterKeys(csv))
		*list = was
	}
	for _, many := range []func(){
		func() {
			spec.APIServiceDefinitions.Owned = make([]operatorsv1alpha1.APIServiceDescription, maxCompared)
		},
		func() {
			spec.APIServiceDefinitions.Owned, spec.WebhookDefinitions = nil, make([]operatorsv1alpha1.WebhookDescription, maxCompared)
		},
	} {
		many()
		require.Contains(t, clusterKeys(csv), manyDefinitions)
	}
}

// Tenants can change their own definitions at any rate, and the events of all of them are handled one after the other. They are not
// compared with the versions of other tenants.
func TestObjectsOfTheClusterWakeTheVersionsThatNameThem(t *testing.T) {
	w := newWorld(t)
	settled(w)
	version := func(name string, change func(*operatorsv1alpha1.ClusterServiceVersionSpec)) *operatorsv1alpha1.ClusterServiceVersion {
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: name}}
		change(&csv.Spec)
		return csv
	}
	w.Put(
		version("owns", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "as.example.com"}}
		}),
		version("requires", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "as.example.com"}}
		}),
		version("serves", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Version: "v1", Group: "example.com"}}
		}),
		version("needs", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.APIServiceDefinitions.Required = []operatorsv1alpha1.APIServiceDescription{{Version: "v9", Group: "other.com"}}
		}),
		version("native", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.NativeAPIs = []metav1.GroupVersionKind{{Kind: "Pod"}}
		}),
		version("hooks", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{GenerateName: "hook-of.example.com"}}
		}),
		version("many", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Owned = append(make([]operatorsv1alpha1.CRDDescription, maxCompared), operatorsv1alpha1.CRDDescription{Name: "as.example.com"})
			s.APIServiceDefinitions.Owned = []operatorsv1alpha1.APIServiceDescription{{Version: "v1", Group: "example.com"}}
			s.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{GenerateName: "hook-of.example.com"}}
		}),
		version("two-lists", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Owned = make([]operatorsv1alpha1.CRDDescription, maxNamed)
			s.CustomResourceDefinitions.Required = make([]operatorsv1alpha1.CRDDescription, maxNamed)
		}),
		version("too-many", func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
			s.CustomResourceDefinitions.Owned = make([]operatorsv1alpha1.CRDDescription, maxNamed+1)
		}),
	)
	reader := &listed{Client: w.r.Client}
	w.r.Client = reader
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	for _, row := range []struct {
		woken []reconcile.Request
		want  []string
	}{
		{w.r.naming(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: named("as.example.com")}), []string{"owns", "requires", "native", "many", "too-many"}},
		{w.r.naming(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: named("bs.example.com")}), []string{"native", "too-many"}},
		{w.r.serving(t.Context(), &apiregistrationv1.APIService{ObjectMeta: named("v1.example.com")}), []string{"serves", "needs", "native", "many", "too-many"}},
		{w.r.serving(t.Context(), &apiregistrationv1.APIService{ObjectMeta: named("v2.example.com")}), []string{"needs", "native", "too-many"}},
		{w.r.calling(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named("hook-of.example.com-abc-d")}), []string{"hooks", "many", "too-many"}},
		{w.r.calling(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named("hook-of.example.com")}), []string{"too-many"}},
	} {
		var woken []string
		for _, r := range row.woken {
			woken = append(woken, r.Name)
		}
		require.ElementsMatch(t, row.want, woken)
	}
	for _, o := range reader.options {
		require.NotNil(t, o.FieldSelector)
	}
}

func TestAVersionHasKeysForWhatItIs(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v2", Labels: map[string]string{names.LabelLineage: strings.Repeat("m", 32)}}}
	csv.Spec.Replaces = "demo.v1"
	csv.Spec.WebhookDefinitions = []operatorsv1alpha1.WebhookDescription{{Type: operatorsv1alpha1.ValidatingAdmissionWebhook}}
	want := []string{"owner/demo.v2", "lineage/" + directLineage(csv).ShortMark(), "lineage/" + strings.Repeat("m", 16), "replaces/demo.v1"}
	require.Equal(t, want, ownKeys(csv))
	csv.Spec.WebhookDefinitions[0].Type = operatorsv1alpha1.MutatingAdmissionWebhook
	require.Equal(t, append(slices.Clone(want), byMutation), ownKeys(csv))
	csv.Spec.WebhookDefinitions = make([]operatorsv1alpha1.WebhookDescription, maxCompared+1)
	require.Equal(t, append(slices.Clone(want), byMutation), ownKeys(csv))
	csv.Spec.WebhookDefinitions, csv.Spec.Replaces = nil, strings.Repeat("x", 1<<20)
	require.Equal(t, want[:3], ownKeys(csv))
}

// listed records the options of lists.
type listed struct {
	client.Client
	options []client.ListOptions
}

func (l *listed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	l.options = append(l.options, *o.ApplyOptions(opts))
	return l.Client.List(ctx, list, opts...)
}

// No event of an object in a namespace is compared with all versions of the namespace, except for one of its OperatorGroup.
func TestEventsReadOnlyTheVersionsThatTheyConcern(t *testing.T) {
	w := newWorld(t)
	installed(w)
	next(w)
	older := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0"}}
	reader := &listed{Client: w.r.Client}
	w.r.Client = reader
	meta := metav1.ObjectMeta{Namespace: older.Namespace, Name: "x"}
	for name, handle := range map[string]func() []reconcile.Request{
		"neighbors": func() []reconcile.Request { return w.r.neighbors(t.Context(), older) },
		"conditioned": func() []reconcile.Request {
			return w.r.conditioned(t.Context(), &operatorsv2.OperatorCondition{ObjectMeta: older.ObjectMeta})
		},
		"deployed":      func() []reconcile.Request { return w.r.deployed(t.Context(), &appsv1.Deployment{ObjectMeta: meta}) },
		"calledThrough": func() []reconcile.Request { return w.r.calledThrough(t.Context(), &corev1.Service{ObjectMeta: meta}) },
		"declaring": func() []reconcile.Request {
			return w.r.declaring(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta})
		},
	} {
		reader.options = nil
		handle()
		require.NotEmpty(t, reader.options, name)
		for _, o := range reader.options {
			require.NotNil(t, o.FieldSelector, name)
			require.EqualValues(t, maxWoken, o.Limit, name)
		}
	}
	reader.options = nil
	w.r.intercepting(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta})
	require.Len(t, reader.options, 1)
	require.NotNil(t, reader.options[0].FieldSelector)
	require.Zero(t, reader.options[0].Limit, "the bound needs each version with mutating webhooks")

	deployment := &appsv1.Deployment{}
	require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Namespace: "t1", Name: "demo"}, deployment))
	reader.options = nil
	require.NotEmpty(t, w.r.owning(t.Context(), deployment))
	require.Len(t, reader.options, 2)
	for _, o := range reader.options {
		require.NotNil(t, o.FieldSelector)
	}
}

func TestVersionsWithManyNamesAreWokenByEachObject(t *testing.T) {
	w := newWorld(t)
	settled(w)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "many"}}
	csv.Spec.InstallStrategy.StrategySpec.Permissions = make([]operatorsv1alpha1.StrategyDeploymentPermissions, maxCompared+1)
	w.Put(csv)
	meta := metav1.ObjectMeta{Namespace: "t1", Name: "any"}
	require.Equal(t, request("t1", "many"), w.r.declaring(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.Equal(t, request("t1", "many"), w.r.deployed(t.Context(), &appsv1.Deployment{ObjectMeta: meta}))
	require.Equal(t, request("t1", "many"), w.r.calledThrough(t.Context(), &corev1.Service{ObjectMeta: meta}))
}

func TestAConditionWakesAllLaterVersions(t *testing.T) {
	w := newWorld(t)
	settled(w)
	version := func(name, replaces string) *operatorsv1alpha1.ClusterServiceVersion {
		csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: name}}
		csv.Spec.Replaces = replaces
		return csv
	}
	w.Put(version("v1", "v4"), version("v2", "v1"), version("other", "v1"), version("v3", "v2"), version("v4", "v3"), version("unrelated", "v0"))
	var woken []string
	for _, r := range w.r.conditioned(t.Context(), &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "v1"}}) {
		woken = append(woken, r.Name)
	}
	require.ElementsMatch(t, []string{"v1", "v2", "other", "v3", "v4"}, woken, "also if the versions replace each other")
}
