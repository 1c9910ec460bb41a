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
	// globalCatalogs is the global catalog namespace, whose catalogs all namespaces may use.
	globalCatalogs = "cat"
	// neighbor is the namespace of another tenant.
	neighbor = "t2"
	// secretValue is a value that is private to the neighbor and must not appear outside the neighbor's namespaces.
	secretValue = "the-neighbors-own-business"
)

var (
	cluster *env.Cluster
	judge   *oracle.Oracle
	// images is an image registry that the cluster may use without TLS.
	images *registry.Server
	// directories contains the directories of the rows' catalogs.
	directories string
	// ran counts the rows that have run, and passed counts those that have passed.
	ran, passed atomic.Int32
	// failedRows contains the names of the rows that have failed. They are repeated at the end, where a long log shows them.
	failedRows []string
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
	catalogs, err := makeCatalogs(dir)
	if err != nil {
		return fail(err)
	}
	images = registry.Start()
	defer images.Close()
	healthy, _, err := images.PushCatalog("healthy:v1", oracle.HealthyExtensions())
	if err != nil {
		return fail(err)
	}
	plain := "--registry-plain-http=" + images.Host
	cluster, err = env.Start(ctx, env.Options{Catalogs: catalogs, CatalogArgs: []string{"--global-catalog-namespace=" + globalCatalogs, plain},
		Extensions: true, ExtensionArgs: []string{plain}, Args: verbose()})
	if err != nil {
		return fail(err)
	}
	code := func() int {
		if err := placeCanaries(ctx, cluster.Client); err != nil {
			return fail(err)
		}
		if judge, err = oracle.New(ctx, cluster, healthy); err != nil {
			return fail(err)
		}
		judge.Canary, judge.Homes = secretValue, []string{neighbor, "kube-system"}
		return m.Run()
	}()
	if err := cluster.Stop(); err != nil {
		code = fail(err)
	}
	if judge != nil {
		fmt.Printf("escape: %d of %d rows passed; the oracle made %d checks of each of its %d invariants; the programs used at most %d MiB\n",
			passed.Load(), ran.Load(), judge.Checks, oracle.Invariants, judge.Largest>>20)
		for _, name := range failedRows {
			fmt.Println("escape: failed:", name)
		}
		fmt.Printf("escape: maxima in a row: %s of CPU time for a program, %d requests from an identity, %s for the healthy install\n",
			judge.Busiest, judge.Most, judge.Slowest.Round(time.Millisecond))
		if crowdFigure != "" {
			fmt.Println("escape:", crowdFigure)
		}
	}
	return code
}

// verbose returns arguments that make all programs log at the most verbose level, so that invariant I4 also covers
// debug logs.
func verbose() []installed.Args {
	return []installed.Args{
		{Deployment: names.ServiceAccountCatalog, Args: []string{"--debug"}},
		{Deployment: names.ServiceAccountOLM, Args: []string{"--debug", graceArg}},
		{Deployment: names.ServiceAccountExtension, Args: []string{"--debug", graceArg}},
	}
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "escape:", err)
	return 1
}

func image(catalog string) string { return "catalogs.test/" + catalog }

// makeCatalogs makes a directory for each catalog that is too large for a ConfigMap. It returns the directories, keyed
// by image.
func makeCatalogs(dir string) (map[string]string, error) {
	directories = dir
	out := map[string]string{}
	for _, r := range chosen() {
		if r.directory == nil {
			continue
		}
		out[image(r.number)] = filepath.Join(dir, r.number)
		if err := os.Mkdir(out[image(r.number)], 0o700); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// writeCatalog writes the row's catalog if it is too large for a ConfigMap.
func (r *row) writeCatalog() error {
	if r.directory == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(directories, r.number, "catalog.json"), []byte(r.directory()), 0o600)
}

// placeCanaries creates objects that no row may change.
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
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: globalCatalogs}},
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
