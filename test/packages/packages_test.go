package packages

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
)

func TestKubectlListsPackages(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	global := share(t, sharedImage)
	s.create(fbc("widgets", "Widgets", "Us"))
	eventually(t, func(c *assert.CollectT, out string) {
		assert.Regexp(c, `^NAME +CATALOG +AGE\n`, out)
		assert.Regexp(c, `\netcd +Shared +\d+`, out)
		assert.Regexp(c, `\nwidgets +Our catalog +\d+`, out)
	}, "get", "packagemanifests", "-n", s.namespace)

	// On a busy machine, the API server may not reach package-server for a moment, and observes its OpenAPI schema with a delay.
	eventually(t, func(c *assert.CollectT, out string) {
		assert.Equal(c, "packagemanifest.packages.operators.coreos.com/widgets\n", out)
	}, "get", "packagemanifests", "-n", s.namespace, "-l", "catalog="+s.catalog+",operatorframework.io/arch.arm64=supported", "-o", "name")
	eventually(t, func(c *assert.CollectT, out string) {
		assert.Equal(c, cluster.Catalogs, out)
	}, "get", "packagemanifests", "-A", "--field-selector", "metadata.name=etcd", "-l", "catalog="+global, "-o", "jsonpath={.items[*].metadata.namespace}")
	eventually(t, func(c *assert.CollectT, out string) {
		for _, part := range []string{
			"catalogSource: " + s.catalog, "catalogSourceNamespace: " + s.namespace, "currentCSV: widgets.v2", "displayName: Widgets", "description: A store",
			"defaultChannel: stable", "version: 1.0.0", "provider: Us", "namespace: " + s.namespace,
		} {
			assert.Contains(c, out, part)
		}
		assert.NotContains(c, out, "image/svg+xml", "the subresource serves the icon")
	}, "get", "packagemanifest", "widgets", "-n", s.namespace, "-o", "yaml")
	eventually(t, func(c *assert.CollectT, out string) {
		assert.Contains(c, out, "installModes")
	}, "explain", "packagemanifests.status.channels.currentCSVDesc")
}

func TestClientsListInChunks(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	share(t, sharedImage)
	s.create(fbc("nuts", "Nuts", "Us"))
	c, err := dynamic.NewForConfig(cluster.Config())
	require.NoError(t, err)
	packages := c.Resource(packagesv1.GroupVersion.WithResource(packagesv1.ResourcePackageManifests)).Namespace(s.namespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a continue token expires when another test changes a global catalog
		var names []string
		for o := (metav1.ListOptions{Limit: 1}); ; {
			list, err := packages.List(t.Context(), o)
			if !assert.NoError(c, err) || !assert.Len(c, list.Items, 1) {
				return
			}
			names = append(names, list.Items[0].GetName())
			if o.Continue = list.GetContinue(); o.Continue == "" {
				break
			}
		}
		assert.Contains(c, names, "etcd")
		assert.Contains(c, names, "nuts")
		out, err := kubectl(t, "get", "packagemanifests", "-n", s.namespace, "--chunk-size=1", "-o", "name")
		assert.NoError(c, err, out)
		assert.Len(c, strings.Fields(out), len(names))
	}, env.Patience, 100*time.Millisecond)
}

// RBAC decides in which namespaces a tenant can list packages. The lists do not contain packages from other tenants' catalogs.
func TestATenantSeesItsOwnCatalogsAndTheGlobalOnes(t *testing.T) {
	t.Parallel()
	a, b := newScene(t), newScene(t)
	share(t, sharedImage)
	a.create(fbc("apples", "Apples", "A"))
	b.create(fbc("pears", "Pears", "B"))
	user := "user-" + a.namespace
	a.view(user)
	as := cluster.As(t, user)
	list := func(namespace string) ([]string, error) {
		l := &packagesv1.PackageManifestList{}
		err := list(as, t, l, namespace)
		var out []string
		for _, m := range l.Items {
			out = append(out, m.Name)
		}
		return out, err
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := list(a.namespace)
		assert.NoError(c, err)
		assert.Contains(c, got, "apples")
		assert.Contains(c, got, "etcd")
		assert.NotContains(c, got, "pears")
	}, env.Patience, 100*time.Millisecond)
	for _, namespace := range []string{b.namespace, ""} {
		_, err := list(namespace)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	}
	eventually(t, func(c *assert.CollectT, out string) { assert.Contains(c, out, "pears") }, "get", "packagemanifests", "-n", b.namespace)
	for _, path := range []string{"/packagemanifests/pears", "/packagemanifests/pears/icon"} {
		status, _ := get(t, cluster.Config(), "/namespaces/"+a.namespace+path, nil)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	// Only the catalog program can send catalogs; the role view does not allow it.
	config := cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	for _, path := range []string{"/packagecatalogs", "/packagecatalogs/" + a.catalog + "/content"} {
		status, _ := get(t, config, "/namespaces/"+a.namespace+path, nil)
		require.Contains(t, []int{http.StatusForbidden, http.StatusMethodNotAllowed}, status, path)
	}
}

func list(as client.Client, t *testing.T, into *packagesv1.PackageManifestList, namespace string) error {
	t.Helper()
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(packagesv1.GroupVersion.WithKind("PackageManifestList"))
	if err := as.List(t.Context(), u, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, item := range u.Items {
		m := packagesv1.PackageManifest{}
		m.Name = item.GetName()
		into.Items = append(into.Items, m)
	}
	return nil
}

// get sends a GET request to the packages API.
func get(t *testing.T, config *rest.Config, path string, header http.Header) (int, *http.Response) {
	t.Helper()
	c, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/packages.operators.coreos.com/v1"+path, nil)
	require.NoError(t, err)
	if header != nil {
		r.Header = header
	}
	got, err := c.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	got.Body = io.NopCloser(strings.NewReader(string(body)))
	return got.StatusCode, got
}

func TestServesAnIconThatBrowsersDoNotExecute(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.create(fbc("pictures", "Pictures", "Us"))
	eventually(t, func(c *assert.CollectT, out string) { assert.Contains(c, out, "pictures") }, "get", "packagemanifests", "-n", s.namespace)
	path := "/namespaces/" + s.namespace + "/packagemanifests/pictures/icon"
	status, got := get(t, cluster.Config(), path, nil)
	require.Equal(t, http.StatusOK, status)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, svg, string(body))
	require.Equal(t, "image/svg+xml", got.Header.Get("Content-Type"))
	require.Contains(t, got.Header.Get("Content-Security-Policy"), "sandbox")
	require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
	status, _ = get(t, cluster.Config(), path, http.Header{"If-None-Match": {got.Header.Get("ETag")}})
	require.Equal(t, http.StatusNotModified, status)
}

// Informers, which list and watch, follow a catalog from its creation to its deletion.
func TestInformersFollowACatalog(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c, err := dynamic.NewForConfig(cluster.Config())
	require.NoError(t, err)
	resource := packagesv1.GroupVersion.WithResource(packagesv1.ResourcePackageManifests)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c, 0, s.namespace, func(o *metav1.ListOptions) { o.LabelSelector = "catalog=" + s.catalog })
	informer := factory.ForResource(resource)
	factory.Start(t.Context().Done())
	require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.Informer().HasSynced))
	displayed := func() string {
		out := ""
		for _, obj := range informer.Informer().GetStore().List() {
			u, _ := obj.(*unstructured.Unstructured)
			channels, _, _ := unstructured.NestedSlice(u.Object, "status", "channels")
			for _, channel := range channels {
				name, _, _ := unstructured.NestedString(channel.(map[string]any), "currentCSVDesc", "displayName")
				out += u.GetName() + "=" + name + " "
			}
		}
		return out
	}
	await := func(want string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, displayed()) }, env.Patience, 50*time.Millisecond)
	}
	config := s.create(fbc("gears", "Gears", "Us"))
	await("gears=Gears ")
	before := config.DeepCopy()
	config.Data["catalog.json"] = fbc("gears", "Better gears", "Us")
	config.Data["more.json"] = fbc("wheels", "Wheels", "Us")
	require.NoError(t, cluster.Client.Patch(t.Context(), config, client.MergeFrom(before)))
	// Remit watches tenants' ConfigMaps only as their account, so change the CatalogSource to have the ConfigMap read again.
	cs := &operatorsv1alpha1.CatalogSource{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.catalog}, cs))
	renamed := cs.DeepCopy()
	renamed.Spec.DisplayName = "Renamed"
	require.NoError(t, cluster.Client.Patch(t.Context(), renamed, client.MergeFrom(cs)))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Contains(c, displayed(), "wheels=Wheels ")
		assert.Contains(c, displayed(), "gears=Better gears ")
	}, env.Patience, 50*time.Millisecond)
	require.NoError(t, cluster.Client.Delete(t.Context(), cs))
	await("")
}

// The identity of package-server can change only the CA of its APIService, and no other APIService.
func TestPackageServerCanOnlyPublishItsCA(t *testing.T) {
	t.Parallel()
	user := scoped.Username(cluster.Home, names.ServiceAccountPackageServer)
	as := client.NewDryRunClient(cluster.As(t, user, "system:serviceaccounts", "system:serviceaccounts:"+cluster.Home))
	patch := func(name, text string) error {
		a := &apiregistrationv1.APIService{}
		a.Name = name
		return as.Patch(t.Context(), a, client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	const own = "v1.packages.operators.coreos.com"
	require.NoError(t, patch(own, `{"spec":{"caBundle":"eA=="}}`))
	for _, text := range []string{
		`{"spec":{"service":{"name":"other"}}}`, `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`, `{"spec":{"groupPriorityMinimum":1}}`,
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["a/b"]}}`,
		`{"spec":{"versionPriority":1}}`,
	} {
		require.ErrorContains(t, patch(own, text), "remit-package-server may change only spec.caBundle", text)
	}
	require.True(t, apierrors.IsForbidden(patch("v1.apps", `{"spec":{"caBundle":"eA=="}}`)))

	t.Log("the policy does not rely on the permissions")
	as = client.NewDryRunClient(cluster.As(t, user, "system:masters"))
	const other, denied = "remit-package-server may only update its own APIService", "remit-package-server may change only spec.caBundle"
	require.NoError(t, patch(own, `{"spec":{"caBundle":"eA=="}}`))
	require.ErrorContains(t, patch(own, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"x","uid":"x"}]}}`), denied)
	require.ErrorContains(t, patch("v1.apps", `{"spec":{"groupPriorityMinimum":1}}`), other)
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.other.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{Group: "other.example.com", Version: "v1", GroupPriorityMinimum: 1, VersionPriority: 1}}
	require.ErrorContains(t, as.Create(t.Context(), service), other)
	service.Name = own
	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[{"type":"Available","status":"False"}]}}`))
	require.ErrorContains(t, as.Status().Patch(t.Context(), service, status), denied)
}

// Packages are listed again after package-server, which has no storage, restarts. This test must run last.
func TestPackageServerRestarts(t *testing.T) {
	s := newScene(t)
	s.create(fbc("gears", "Gears", "Us"))
	args := []string{"get", "packagemanifests", "-n", s.namespace, "-o", "name"}
	eventually(t, func(c *assert.CollectT, out string) { assert.Contains(c, out, "/gears\n") }, args...)
	a := &apiregistrationv1.APIService{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "v1.packages.operators.coreos.com"}, a))
	pods := []client.DeleteAllOfOption{client.InNamespace(cluster.Home), client.MatchingLabels{"app.kubernetes.io/name": "remit-package-server"}}
	require.NoError(t, cluster.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, pods...))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		now := &apiregistrationv1.APIService{}
		if assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(a), now)) {
			assert.NotEqual(c, a.Spec.CABundle, now.Spec.CABundle, "a new process has a new key")
		}
	}, env.Patience, 50*time.Millisecond)
	eventually(t, func(c *assert.CollectT, out string) { assert.Contains(c, out, "/gears\n") }, args...)
}

// package-server needs little memory for the largest catalog of the corpus, even while the catalog is listed.
func TestMemoryOfALargeCatalog(t *testing.T) {
	if os.Getenv("CORPUS_DIR") == "" {
		t.Skip("CORPUS_DIR is not set")
	}
	before := memory(t)
	share(t, corpusImage)
	eventually(t, func(c *assert.CollectT, out string) { assert.Contains(c, out, "/alloydb-omni-operator\n") }, "get", "packagemanifests", "-o", "name")
	sent := memory(t)
	out, err := kubectl(t, "get", "packagemanifests", "-A", "-o", "json")
	require.NoError(t, err)
	for range 10 {
		_, err := kubectl(t, "get", "packagemanifests", "-A", "-o", "json")
		require.NoError(t, err)
	}
	listed := memory(t)
	t.Logf("package-server: %d KiB before, %d KiB with the catalog, %d KiB after 11 lists of %d KiB", before, sent, listed, len(out)>>10)
	require.Less(t, listed, 256<<10)
}

// memory returns the resident memory of package-server, in KiB.
func memory(t *testing.T) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, link := range all {
		if exe, err := os.Readlink(link); err != nil || exe != filepath.Join(cluster.Bin, "package-server") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(text), "VmRSS:")
		require.True(t, ok)
		n, err := strconv.Atoi(strings.Fields(rest)[0])
		require.NoError(t, err)
		return n
	}
	require.Fail(t, "package-server does not run")
	return 0
}
