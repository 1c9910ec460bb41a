package extension

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// packages returns a file-based catalog with a package for each name.
func packages(all ...string) string {
	var out strings.Builder
	for _, name := range all {
		fmt.Fprintf(&out, `{"schema":"olm.package","name":%[1]q,"defaultChannel":"stable"}
{"schema":"olm.channel","package":%[1]q,"name":"stable","entries":[{"name":"%[1]s.v1"}]}
{"schema":"olm.bundle","package":%[1]q,"name":"%[1]s.v1","image":"example.com/%[1]s:v1","properties":[{"type":"olm.package","value":{"packageName":%[1]q,"version":"1.0.0"}}]}
`, name)
	}
	return out.String()
}

// push pushes an image with a file-based catalog, and returns its name and digest.
func push(t *testing.T, named, content string) (ref, digest string) {
	t.Helper()
	ref, digest, err := images.PushCatalog(named, content)
	require.NoError(t, err)
	return ref, digest
}

// create creates a ClusterCatalog, which is deleted when the test ends.
func create(t *testing.T, name, ref string, edits ...func(*olmv1.ClusterCatalog)) *olmv1.ClusterCatalog {
	t.Helper()
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	for _, edit := range edits {
		edit(k)
	}
	require.NoError(t, cluster.Client.Create(t.Context(), k))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), k) })
	return k
}

// await waits until the ClusterCatalog's condition Serving has the given reason, and returns the ClusterCatalog.
func await(t *testing.T, name, reason string) *olmv1.ClusterCatalog {
	t.Helper()
	k := &olmv1.ClusterCatalog{}
	eventually(t, func(c *assert.CollectT) {
		if !assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKey{Name: name}, k)) {
			return
		}
		if got := meta.FindStatusCondition(k.Status.Conditions, olmv1.TypeServing); assert.NotNil(c, got) {
			assert.Equal(c, reason, got.Reason, got.Message)
			assert.Equal(c, k.Generation, got.ObservedGeneration)
		}
	})
	return k
}

// reader returns an HTTPS client that reaches the Services of the cluster and trusts these CAs.
func reader(t *testing.T, ca []byte) *http.Client {
	t.Helper()
	proxy, err := url.Parse(cluster.Proxy)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// trusting returns a client that trusts the published CA.
func trusting(t *testing.T) *http.Client {
	t.Helper()
	config := &corev1.ConfigMap{}
	eventually(t, func(c *assert.CollectT) {
		key := types.NamespacedName{Namespace: cluster.Home, Name: names.ConfigMapCatalogContentCA}
		assert.NoError(c, cluster.Client.Get(t.Context(), key, config))
		assert.NotEmpty(c, config.Data[names.KeyCA])
	})
	return reader(t, []byte(config.Data[names.KeyCA]))
}

func get(t *testing.T, through *http.Client, address string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	resp, err := through.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestServesAClusterCatalogUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	ref, digest := push(t, "served:v1", packages("a", "b"))
	create(t, "served", ref)
	k := await(t, "served", olmv1.ReasonAvailable)
	require.Equal(t, "served", k.Labels[olmv1.LabelMetadataName])
	require.Contains(t, k.Status.ResolvedSource.Image.Ref, "@"+digest)
	base := k.Status.URLs.Base
	require.Equal(t, "https://remit-catalog-content.remit.svc/catalogs/served", base)

	_, _, err := get(t, reader(t, nil), base+"/api/v1/all")
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError), "the CA must be trusted explicitly")
	content := trusting(t)
	status, text, err := get(t, content, base+"/api/v1/all")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, strings.Split(strings.TrimSpace(text), "\n"), 6)
	_, text, err = get(t, content, base+"/api/v1/metas?schema=olm.bundle&package=b")
	require.NoError(t, err)
	require.JSONEq(t, strings.Split(packages("b"), "\n")[2], text)

	before := k.DeepCopy()
	k.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable
	require.NoError(t, cluster.Client.Patch(t.Context(), k, client.MergeFrom(before)))
	k = await(t, "served", olmv1.ReasonUserSpecifiedUnavailable)
	require.Nil(t, k.Status.URLs)
	status, _, err = get(t, content, base+"/api/v1/all")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)

	before = k.DeepCopy()
	k.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable
	require.NoError(t, cluster.Client.Patch(t.Context(), k, client.MergeFrom(before)))
	await(t, "served", olmv1.ReasonAvailable)
	require.NoError(t, cluster.Client.Delete(t.Context(), k))
	eventually(t, func(c *assert.CollectT) {
		status, _, err := get(t, content, base+"/api/v1/all")
		assert.NoError(c, err)
		assert.Equal(c, http.StatusNotFound, status)
	})
}

// The shortest interval is a minute.
func TestPollsTheImageOfAClusterCatalog(t *testing.T) {
	t.Parallel()
	ref, old := push(t, "polled:latest", packages("a"))
	create(t, "polled", ref, func(k *olmv1.ClusterCatalog) { k.Spec.Source.Image.PollIntervalMinutes = ptr.To(1) })
	k := await(t, "polled", olmv1.ReasonAvailable)
	require.Contains(t, k.Status.ResolvedSource.Image.Ref, old)
	_, latest := push(t, "polled:latest", packages("a", "b"))
	eventually(t, func(c *assert.CollectT) {
		if assert.NoError(c, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(k), k)) {
			assert.Contains(c, k.Status.ResolvedSource.Image.Ref, latest)
		}
	})
	_, text, err := get(t, trusting(t), k.Status.URLs.Base+"/api/v1/metas?schema=olm.package&name=b")
	require.NoError(t, err)
	require.NotEmpty(t, text)
}
