package hooks

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	cliresource "k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
	"github.com/remit-olm/remit/test/operators/sample/bundlev2"
	"github.com/remit-olm/remit/test/operators/sample/echo"
	samplehooks "github.com/remit-olm/remit/test/operators/sample/hooks"
)

// greeting returns a Greeting in the given version of the API, without a spec.
func greeting(version, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("sample.remit.dev/" + version)
	obj.SetKind("Greeting")
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func saying(obj *unstructured.Unstructured, field, text string) *unstructured.Unstructured {
	_ = unstructured.SetNestedField(obj.Object, text, "spec", field) // cannot fail: the Greeting has no spec yet
	return obj
}

func messageOf(t assert.TestingT, c client.Client, version, namespace, name, field string) string {
	obj := greeting(version, namespace, name)
	assert.NoError(t, c.Get(contextOf(t), client.ObjectKeyFromObject(obj), obj))
	text, _, _ := unstructured.NestedString(obj.Object, "spec", field)
	return text
}

// ownCluster starts a cluster for one test, with a catalog of both versions of the sample. On a shared cluster, an API
// that is no longer served would block other tests.
func ownCluster(t *testing.T, args ...manifests.Args) *env.Cluster {
	t.Helper()
	dir := t.TempDir() + "/" + catalogBoth
	require.NoError(t, writeBoth(dir))
	return startCluster(t, env.Options{Catalogs: map[string]string{image(catalogBoth): dir}, Args: args})
}

func startCluster(t *testing.T, options env.Options) *env.Cluster {
	t.Helper()
	c, err := env.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := c.CheckIdentities(context.Background())
		assert.NoError(t, err)
		assert.NoError(t, c.Stop())
	})
	return c
}

func needsOf(tn *env.Tenant, files fs.FS, targets ...string) {
	tn.T.Helper()
	b, err := env.ReadBundle(files)
	require.NoError(tn.T, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, targets...))
}

func TestAnOperatorWithEveryKindOfWebhookAndAnAPI(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	tn := c.Tenant(t)
	needsOf(tn, bundlev2.FS(), rbac.ClusterScope)
	tn.Catalog("catalog", image(catalogBoth))
	tn.Group(env.AccountName)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel)
	tn.Complete()
	got := tn.Succeeded(bundlev2.CSV)
	require.Equal(t, "install strategy completed with no errors", got.Status.Message)
	for _, r := range got.Status.RequirementStatus {
		require.Contains(t, []operatorsv1alpha1.StatusReason{"Present", "DeploymentFound"}, r.Status, "%s %s: %s", r.Kind, r.Name, r.Message)
	}

	t.Run("a validating webhook allows and denies", func(t *testing.T) {
		require.NoError(t, c.Client.Create(t.Context(), saying(greeting("v1", tn.Namespace, "hello"), "message", "Hello")))
		err := c.Client.Create(t.Context(), saying(greeting("v2", tn.Namespace, "bye"), "text", "Goodbye"))
		require.ErrorContains(t, err, "a Greeting does not say goodbye")
	})
	t.Run("a mutating webhook labels objects", func(t *testing.T) {
		obj := greeting("v1", tn.Namespace, "hello")
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		require.Equal(t, "webhook", obj.GetLabels()[samplehooks.Label])
	})
	t.Run("a conversion webhook converts in both directions", func(t *testing.T) {
		require.Equal(t, "Hello", messageOf(t, c.Client, "v2", tn.Namespace, "hello", "text"))
		require.NoError(t, c.Client.Create(t.Context(), saying(greeting("v2", tn.Namespace, "second"), "text", "Good morning")))
		require.Equal(t, "Good morning", messageOf(t, c.Client, "v1", tn.Namespace, "second", "message"))
	})
	t.Run("the operator works with converted objects", func(t *testing.T) {
		tn.Eventually(func(ct *assert.CollectT) {
			obj := greeting("v2", tn.Namespace, "second")
			assert.NoError(ct, c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
			conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
			assert.Contains(ct, fmt.Sprint(conditions), "status:True")
		})
	})
	t.Run("an API serves only authorized users", func(t *testing.T) {
		tn.Eventually(func(ct *assert.CollectT) {
			assert.Equal(ct, []string{"HELLO", "GOOD MORNING"}, echoes(ct, c.Client, tn.Namespace))
		})
		config := rest.CopyConfig(c.Config())
		config.Impersonate = rest.ImpersonationConfig{UserName: scoped.Username("default", "nobody"), Groups: rbac.ServiceAccount("default", "nobody").Groups}
		nobody, err := client.New(config, client.Options{})
		require.NoError(t, err)
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(echo.Group + "/" + echo.Version)
		list.SetKind(echo.Kind + "List")
		require.True(t, apierrors.IsForbidden(nobody.List(t.Context(), list, client.InNamespace(tn.Namespace))))
	})
	t.Run("an API works with kubectl get", func(t *testing.T) {
		require.Equal(t, []string{"hello", "second"}, kubectlGet(t, c, tn.Namespace, echo.Resource))
	})
	t.Run("removing the operator leaves nothing behind", func(t *testing.T) {
		running := whenNotConverted(t, c, tn.Namespace)
		require.NoError(t, c.Client.DeleteAllOf(t.Context(), &operatorsv1alpha1.Subscription{}, client.InNamespace(tn.Namespace)))
		require.NoError(t, c.Client.Delete(t.Context(), got))
		tn.Eventually(func(ct *assert.CollectT) { assert.True(ct, apierrors.IsNotFound(tn.Get(bundlev2.CSV, &csv{}))) })
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "greetings.sample.remit.dev"}, crd))
		require.Equal(t, apiextensionsv1.NoneConverter, crd.Spec.Conversion.Strategy)
		require.Empty(t, <-running, "a running operator would lose the fields that are no longer converted")
		require.Equal(t, "Hello", messageOf(t, c.Client, "v2", tn.Namespace, "hello", "text"), "the stored version must be readable")
		for _, kind := range []string{
			"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService", "ClusterRoleBinding", "RoleBinding", "ClusterRole",
		} {
			require.Empty(t, ofTenant(t, c, tn.Namespace, kind), kind)
		}
	})
	t.Run("the operator can be installed again", func(t *testing.T) {
		converted := whenDeployed(t, c, tn.Namespace)
		tn.Subscribe("catalog", bundle.Package, bundle.Channel)
		tn.Succeeded(bundlev2.CSV)
		require.Equal(t, apiextensionsv1.WebhookConverter, <-converted, "an operator that runs before the conversion is set would lose fields")
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "greetings.sample.remit.dev"}, crd))
		require.Equal(t, apiextensionsv1.WebhookConverter, crd.Spec.Conversion.Strategy)
		tn.Eventually(func(ct *assert.CollectT) {
			assert.Equal(ct, "Hello", messageOf(ct, c.Client, "v2", tn.Namespace, "hello", "text"))
		})
	})
}

// whenNotConverted returns a channel that receives the names of the operator's Pods that exist when the conversion of
// greetings is reset.
func whenNotConverted(t *testing.T, c *env.Cluster, namespace string) <-chan []string {
	t.Helper()
	out := make(chan []string, 1)
	watched, err := c.Client.Watch(t.Context(), &apiextensionsv1.CustomResourceDefinitionList{}, client.MatchingFields{"metadata.name": "greetings.sample.remit.dev"})
	require.NoError(t, err)
	go func() {
		defer watched.Stop()
		for event := range watched.ResultChan() {
			crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !ok || crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
				continue
			}
			pods := &corev1.PodList{}
			assert.NoError(t, c.Client.List(context.Background(), pods, client.InNamespace(namespace), client.MatchingLabels{"name": "sample-operator"}))
			var running []string
			for _, pod := range pods.Items {
				running = append(running, pod.Name)
			}
			out <- running
			return
		}
	}()
	return out
}

// whenDeployed returns a channel that receives the conversion strategy of greetings when the operator's Deployment is
// created.
func whenDeployed(t *testing.T, c *env.Cluster, namespace string) <-chan apiextensionsv1.ConversionStrategyType {
	t.Helper()
	out := make(chan apiextensionsv1.ConversionStrategyType, 1)
	watched, err := c.Client.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	go func() {
		defer watched.Stop()
		for event := range watched.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok || event.Type != watch.Added || d.Labels["olm.owner"] == "" {
				continue
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			assert.NoError(t, c.Client.Get(context.Background(), client.ObjectKey{Name: "greetings.sample.remit.dev"}, crd))
			out <- crd.Spec.Conversion.Strategy
			return
		}
	}()
	return out
}

// ofTenant returns the objects of a kind outside the tenant's namespace that have the owner labels of the tenant's
// CSVs.
func ofTenant(t *testing.T, c *env.Cluster, namespace, kind string) []string {
	t.Helper()
	groups := map[string]string{"APIService": "apiregistration.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
		"RoleBinding": "rbac.authorization.k8s.io/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(groups[kind])
	if list.GetAPIVersion() == "" {
		list.SetAPIVersion("admissionregistration.k8s.io/v1")
	}
	list.SetKind(kind + "List")
	require.NoError(t, c.Client.List(t.Context(), list, client.MatchingLabels{"olm.owner.namespace": namespace}))
	var out []string
	for _, obj := range list.Items {
		if obj.GetNamespace() != namespace {
			out = append(out, obj.GetName())
		}
	}
	return out
}

// kubectlGet returns the names that kubectl get shows for a resource, using kubectl's library and discovery.
func kubectlGet(t *testing.T, c *env.Cluster, namespace, resource string) []string {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &c.Kubeconfig
	cache := t.TempDir()
	flags.CacheDir = &cache
	infos, err := cliresource.NewBuilder(flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, resource).Latest().Flatten().Do().Infos()
	require.NoError(t, err)
	var out []string
	for _, info := range infos {
		out = append(out, info.Name)
	}
	return out
}

func echoes(t assert.TestingT, c client.Client, namespace string) []string {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(echo.Group + "/" + echo.Version)
	list.SetKind(echo.Kind + "List")
	assert.NoError(t, c.List(contextOf(t), list, client.InNamespace(namespace)))
	var out []string
	for _, obj := range list.Items {
		text, _, _ := unstructured.NestedString(obj.Object, "text")
		out = append(out, text)
	}
	return out
}

// An upgrade adds a version of the API with a conversion and later changes where the conversion is served.
// Clients that continue to read the old version must never be refused.
func TestStoredObjectsStayReadableThroughAnUpgrade(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	tn := c.Tenant(t)
	needsOf(tn, bundle.FS(), rbac.ClusterScope)
	needsOf(tn, bundlev2.FS(), rbac.ClusterScope)
	tn.Catalog("catalog", image(catalogBoth))
	tn.Group(env.AccountName)
	tn.Subscribe("catalog", bundle.Package, bundle.Channel, func(s *operatorsv1alpha1.SubscriptionSpec) {
		s.StartingCSV, s.InstallPlanApproval = bundle.CSV, operatorsv1alpha1.ApprovalManual
	})
	for _, resource := range []string{"configmaps", "serviceaccounts", "services"} {
		// On this cluster, changing an object's owner references requires permission to delete the object.
		tn.Grant(tn.Namespace, rule("", resource, "delete"))
	}
	tn.Approve(bundle.CSV)
	succeeded(tn, bundle.CSV)
	for i := range 5 {
		require.NoError(t, c.Client.Create(t.Context(), saying(greeting("v1", tn.Namespace, fmt.Sprintf("old-%d", i)), "message", "Hello")))
	}

	ctx, stop := context.WithCancel(t.Context())
	reader := &reader{client: c.Client, namespace: tn.Namespace}
	reader.start(ctx)
	tn.Approve(bundlev2.CSV)
	succeeded(tn, bundlev2.CSV)
	tn.Eventually(func(ct *assert.CollectT) {
		assert.Equal(ct, "Hello", messageOf(ct, c.Client, "v2", tn.Namespace, "old-1", "text"))
		assert.True(ct, apierrors.IsNotFound(tn.Get(bundle.CSV, &csv{})), "the old version must be deleted")
	})
	require.NoError(t, c.Client.Create(t.Context(), saying(greeting("v1", tn.Namespace, "new"), "message", "Hello again")))
	require.Equal(t, "Hello again", messageOf(t, c.Client, "v2", tn.Namespace, "new", "text"))
	stop()
	reader.wait()
	t.Logf("FIGURE %d reads in the old version through the upgrade, %d failed", reader.calls, len(reader.failures))
	require.Empty(t, some(reader.failures))
	require.Greater(t, reader.calls, 10)
}

// reader continuously reads Greetings in version v1.
type reader struct {
	client    client.Client
	namespace string

	group    sync.WaitGroup
	calls    int
	failures []string
}

func (r *reader) start(ctx context.Context) {
	r.group.Go(func() {
		for ctx.Err() == nil {
			obj := greeting("v1", r.namespace, "old-1")
			err := r.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			if err == nil {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion("sample.remit.dev/v1")
				list.SetKind("GreetingList")
				err = r.client.List(ctx, list, client.InNamespace(r.namespace))
			}
			if ctx.Err() != nil {
				return
			}
			r.calls++
			if err != nil && !strings.Contains(err.Error(), "context canceled") {
				r.failures = append(r.failures, time.Now().Format(time.TimeOnly)+" "+err.Error())
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func (r *reader) wait() { r.group.Wait() }
