package packages

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

func TestMain(m *testing.M) {
	images = registry.Start()
	code := env.Suite{Cluster: &cluster, Options: options, Parallel: "6"}.Run(m)
	images.Close()
	os.Exit(code)
}

func options(dir string) (env.Options, error) {
	corpus := os.Getenv("CORPUS_DIR")
	o := env.Options{Packages: true, CatalogArgs: []string{"--registry-plain-http=" + images.Host}, Catalogs: map[string]string{sharedImage: dir}}
	if corpus != "" {
		o.Catalogs[corpusImage] = filepath.Join(corpus, "catalogs")
	}
	return o, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(shared), 0o600)
}

const (
	sharedImage = "catalogs.test/shared"
	corpusImage = "catalogs.test/corpus"
	svg         = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
)

// shared is a catalog that describes its bundles with olm.csv.metadata.
var shared = fbc("etcd", "etcd", "CNCF")

// fbc returns a file-based catalog with one package.
func fbc(pkg, displayName, provider string) string {
	return `{"schema":"olm.package","name":"` + pkg + `","defaultChannel":"stable","icon":{"base64data":"` + base64.StdEncoding.EncodeToString([]byte(svg)) + `","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"` + pkg + `","name":"stable","entries":[{"name":"` + pkg + `.v2","replaces":"` + pkg + `.v1"},{"name":"` + pkg + `.v1"}]}
{"schema":"olm.bundle","package":"` + pkg + `","name":"` + pkg + `.v1","image":"quay.test/b:1","properties":[{"type":"olm.package","value":{"packageName":"` + pkg + `","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"` + pkg + `","name":"` + pkg + `.v2","image":"quay.test/b:2","properties":[{"type":"olm.package","value":{"packageName":"` + pkg + `","version":"2.0.0"}},
{"type":"olm.csv.metadata","value":{"displayName":"` + displayName + `","description":"A store","provider":{"name":"` + provider + `"},"labels":{"operatorframework.io/arch.arm64":"supported"}}}]}
`
}

// scene is a namespace with its own catalog.
type scene struct {
	*testing.T
	namespace, catalog string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, namespace: "packages-" + rand.String(5), catalog: "own-" + rand.String(5)}
	account := types.NamespacedName{Namespace: s.namespace, Name: "reader"}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: account.Name}
	for _, obj := range append([]client.Object{ // a catalog in a ConfigMap is read as the account
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account.Name}}},
		&operatorsv1.OperatorGroup{ObjectMeta: meta, Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account.Name, TargetNamespaces: []string{s.namespace}}},
	}, scoped.Enrollment(account, cluster.Home)...) {
		require.NoError(t, cluster.Client.Create(t.Context(), obj))
	}
	return s
}

// create creates the scene's CatalogSource and the ConfigMap with its content.
func (s *scene) create(content string) *corev1.ConfigMap {
	s.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.catalog}, Data: map[string]string{"catalog.json": content}}
	require.NoError(s, cluster.Client.Create(s.Context(), config))
	cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.catalog}}
	cs.Spec = operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: s.catalog, DisplayName: "Our catalog"}
	require.NoError(s, cluster.Client.Create(s.Context(), cs))
	return config
}

// share creates a global CatalogSource for an image, and deletes it after the test.
func share(t *testing.T, image string) string {
	t.Helper()
	cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Catalogs, Name: "shared-" + rand.String(5)}}
	cs.Spec = operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: image, DisplayName: "Shared"}
	require.NoError(t, cluster.Client.Create(t.Context(), cs))
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), cs) })
	return cs.Name
}

// view allows a user to view a namespace.
func (s *scene) view(user string) {
	s.Helper()
	require.NoError(s, cluster.Client.Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "view"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// kubectl runs kubectl as the cluster administrator.
func kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(cluster.Bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// eventually runs kubectl until its output is as expected.
func eventually(t *testing.T, check func(c *assert.CollectT, out string), args ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		out, err := kubectl(t, args...)
		if assert.NoError(c, err, out) {
			check(c, out)
		}
	}, env.Patience, 200*time.Millisecond)
}
