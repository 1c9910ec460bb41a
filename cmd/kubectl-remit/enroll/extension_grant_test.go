package enroll

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

// serveCatalog lets the commands send their requests through a server that forwards them to the API server, except those for the
// content of ClusterCatalogs, which it answers with the catalog of the sample operator.
func (s *extensionSite) serveCatalog() {
	s.Helper()
	text, err := env.SampleFBC()
	require.NoError(s, err)
	config := rest.CopyConfig(s.cluster.Config())
	to, err := url.Parse(config.Host)
	require.NoError(s, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.Transport, err = rest.TransportFor(config)
	require.NoError(s, err)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, names.ServiceCatalogContent) {
			forward.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, matching(s.T, text, r.URL.Query()))
	}))
	s.Cleanup(front.Close)
	file := filepath.Join(s.TempDir(), "kubeconfig")
	require.NoError(s, os.WriteFile(file, []byte(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: "`+front.URL+
		`"}}], contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}]}`), 0o600))
	s.cluster = &controlplane.Instance{Kubeconfig: file}
}

// matching returns the objects of a catalog that a query selects.
func matching(t *testing.T, text string, query url.Values) string {
	var out strings.Builder
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		require.NoError(t, err)
		var has map[string]any
		require.NoError(t, json.Unmarshal(raw, &has))
		selected := true
		for key := range query {
			selected = selected && has[key] == query.Get(key)
		}
		if selected {
			line, err := json.Marshal(has)
			require.NoError(t, err)
			out.Write(append(line, '\n'))
		}
	}
}

// newCatalogSite has a ClusterCatalog and the ClusterExtension, which installs the sample operator in the site's namespace.
func newCatalogSite(t *testing.T) *extensionSite {
	t.Helper()
	s := newExtensionSite(t)
	crds.Install(t, s.cluster.Config())
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: s.extension}}
	catalog.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: "images.test/catalog:v1"}}
	s.createInCluster(catalog)
	catalog.Status.Conditions = []metav1.Condition{{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonAvailable, LastTransitionTime: metav1.Now()}}
	require.NoError(t, s.Status().Update(t.Context(), catalog))
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: s.extension}}
	ext.Spec.Namespace = s.namespace
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: sample.Package,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: s.extension}}}}
	s.createInCluster(ext)
	s.serveCatalog()
	return s
}

// One command enrolls the identity and grants what the ClusterExtension is missing, as docs/kinds/clusterextension.md promises.
func TestEnrollsAndGrantsWhatAClusterExtensionIsMissing(t *testing.T) {
	s := newCatalogSite(t)
	synthetic := names.UserExtensionPrefix + s.extension
	deployments := attributes("create", "apps", "deployments", "")
	deployments.Namespace = s.namespace

	out := s.enroll()
	require.NotContains(t, out, "greetings")
	s.can(false, synthetic, deployments)

	out = s.enroll("--grant", "--yes")
	require.Contains(t, out, "clusterrole.rbac.authorization.k8s.io/remit-extension-enrollment-"+s.extension+" unchanged\n")
	require.Contains(t, out, "greetings", "what is granted is printed")
	s.can(true, synthetic, deployments)
	s.can(false, synthetic, attributes("get", "", "secrets", ""))

	require.NotContains(t, s.enroll("--grant"), "created\n", "nothing is missing, so nothing is asked")
}

func TestGrantsNothingWithoutAConfirmationOrAsADryRun(t *testing.T) {
	s := newCatalogSite(t)
	for _, flags := range [][]string{{"--dry-run=client"}, {"-o", "yaml"}} {
		_, err := s.run(NewCommand(), s.root, append([]string{"clusterextension", s.extension, "--grant"}, flags...)...)
		require.ErrorContains(t, err, "--grant cannot be used with --dry-run or --output")
	}
	cmd := NewCommand()
	cmd.SetIn(strings.NewReader("no\n"))
	out, err := s.run(cmd, s.root, "clusterextension", s.extension, "--grant")
	require.Error(t, err)
	require.Contains(t, out, "greetings")
	deployments := attributes("create", "apps", "deployments", "")
	deployments.Namespace = s.namespace
	s.can(false, names.UserExtensionPrefix+s.extension, deployments)
	s.can(true, remitExtension, attributes("impersonate:user-info", "authentication.k8s.io", "users", names.UserExtensionPrefix+s.extension))
}
