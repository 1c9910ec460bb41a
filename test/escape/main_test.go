package escape

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	installed "github.com/remit-olm/remit/manifests"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	// blessed is the namespace whose catalogs all namespaces may use.
	blessed = "cat"
	// neighbor is the namespace of another tenant.
	neighbor = "t2"
	// secretValue must not occur in any text about t1.
	secretValue = "the-neighbors-own-business"
)

var (
	cluster *env.Cluster
	judge   *oracle.Oracle
	// images is a registry that the cluster may use without TLS.
	images *registry.Server
	// ran counts the rows that ran, passed those that passed.
	ran, passed atomic.Int32
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if part() == partList {
		return listRows()
	}
	if n := shardsToStart(); n > 0 {
		return runShards(n)
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-escape-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	catalogs, err := writeCatalogs(dir)
	if err != nil {
		return fail(err)
	}
	images = registry.Start()
	defer images.Close()
	cluster, err = env.Start(ctx, env.Options{Catalogs: catalogs, CatalogArgs: []string{
		"--global-catalog-namespace=" + blessed, "--registry-plain-http=" + images.Host}, Args: verbose()})
	if err != nil {
		return fail(err)
	}
	code := func() int {
		if err := placeCanaries(ctx, cluster.Client); err != nil {
			return fail(err)
		}
		if judge, err = oracle.New(ctx, cluster); err != nil {
			return fail(err)
		}
		judge.Canary, judge.Homes = secretValue, []string{neighbor, "kube-system"}
		return m.Run()
	}()
	if err := cluster.Stop(); err != nil {
		code = fail(err)
	}
	if judge != nil {
		fmt.Printf("escape: %d of %d rows passed; the oracle looked %d times at each of its %d invariants; the programs were never larger than %d MiB\n",
			passed.Load(), ran.Load(), judge.Checks, oracle.Invariants, judge.Largest>>20)
		fmt.Printf("escape: in no row a program used more than %s of processor time, an identity sent more than %d requests, or the healthy install took more than %s\n",
			judge.Busiest, judge.Most, judge.Slowest.Round(time.Millisecond))
		if crowdFigure != "" {
			fmt.Println("escape:", crowdFigure)
		}
	}
	return code
}

// verbose makes both programs log as much as they can, so that I4 checks it.
func verbose() []installed.Args {
	return []installed.Args{
		{Deployment: names.ServiceAccountCatalog, Args: []string{"--debug"}},
		{Deployment: names.ServiceAccountOLM, Args: []string{"--debug"}},
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "escape:", err)
	return 1
}

func image(catalog string) string { return "catalogs.test/" + catalog }

// writeCatalogs creates the directories of rows whose catalogs are too large for a ConfigMap.
func writeCatalogs(dir string) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range chosen() {
		if r.directory == nil {
			continue
		}
		path := filepath.Join(dir, r.number)
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		out[image(r.number)] = path
		if err := os.WriteFile(filepath.Join(path, "catalog.json"), []byte(r.directory()), 0o600); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// placeCanaries creates the objects that no row may touch.
func placeCanaries(ctx context.Context, c client.Client) error {
	preserve := apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: ptr.To(true),
		}},
	}
	widgets := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.acme.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "acme.io", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{preserve},
		},
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: blessed}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: neighbor}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "crown"}, StringData: map[string]string{"key": secretValue}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "y"}, Data: map[string]string{"key": secretValue}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: neighbor, Name: "own"}},
		widgets,
	} {
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "acme.io/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": neighbor, "name": secretValue + "-name"},
		"spec":     map[string]any{"value": secretValue},
	}}
	return wait.PollUntilContextTimeout(ctx, tick, env.Patience, true, func(ctx context.Context) (bool, error) {
		return c.Create(ctx, widget) == nil, nil
	})
}
