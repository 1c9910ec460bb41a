package docs

// Every fenced block of README.md and docs/**/*.md is run or checked; its language says how.
//
//	yaml     is given to `kubectl apply -f -`, as cluster administrator, with nothing substituted. A
//	         kind that is not served yet is tried again for a while: API servers take seconds to.
//	console  has lines of "$ command", each with the output that is expected below it, which has to
//	         come whole and in order. "..." stands for anything: on a line of its own for any number of
//	         lines, else for any text in the line. A command without output below it only has to end
//	         with status 0. A shell runs the commands in the repository's root.
//	sh       is not run, as it needs another machine or a person: its make targets, and the files
//	         that it names, have to be there.
//
// Any other language, and an indented block that looks like one of these, fails the test: nothing
// stays unrun in silence.
//
// The blocks of a page run in their order. Pages run at the same time, so each has namespaces of its
// own, and cluster-scoped names of its own. The catalog program serves the sample bundle under the
// image name that the pages use (catalogImage).
//
// `kubectl` is this test's own program, which knows the few forms that the pages use (kubectl_test.go),
// since a fresh machine has none; "kubectl remit" is bin/kubectl-remit. DOCS_KUBECTL=/usr/bin/kubectl runs the
// pages with a real one.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	root = "../.."
	// catalogImage is the pages' name for a catalog with the sample operator.
	catalogImage = "example.com/catalogs/sample:v1"
	// pagesRegistry is the pages' name for a registry with an image of that catalog.
	pagesRegistry = "docs-registry.example.com"
	// registryPage uses a registry that this test serves, as Service "registry" of registryNamespace.
	registryPage      = "docs/tasks/catalogs.md"
	registryNamespace = "docs-catalogs"
	// commandTimeout bounds one command, and servedWithin the time to serve a new kind.
	commandTimeout = 3 * time.Minute
	servedWithin   = 30 * time.Second
)

var (
	cluster *env.Cluster
	// kubectlDir holds the kubectl of the pages and its plugin, and comes first in their PATH.
	kubectlDir string
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectlMain(os.Args[1:]))
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "remit-docs-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	catalog := filepath.Join(dir, "catalog")
	if err := os.CopyFS(catalog, bundle.FS()); err != nil {
		return 1, err
	}
	images := registry.Start()
	defer images.Close()
	if err := pushSample(images); err != nil {
		return 1, err
	}
	if cluster, err = env.Start(context.Background(), env.Options{Catalogs: map[string]string{catalogImage: catalog}, CatalogArgs: []string{
		"--registry-mirror=" + pagesRegistry + "=" + images.Host, "--registry-plain-http=" + images.Host}}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := linkKubectl(dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func pushSample(to *registry.Server) error {
	content, err := env.SampleFBC()
	if err != nil {
		return err
	}
	image, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: []byte(content)}})
	if err != nil {
		return err
	}
	_, _, err = to.Push("catalogs/sample:v1", image)
	return err
}

func linkKubectl(dir string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if given := os.Getenv("DOCS_KUBECTL"); given != "" {
		program = given
	}
	kubectlDir = dir
	return errors.Join(
		os.Symlink(program, filepath.Join(dir, "kubectl")),
		os.Symlink(filepath.Join(cluster.Bin, "kubectl-remit"), filepath.Join(dir, "kubectl-remit")),
	)
}

func TestEveryExampleOfTheDocumentationRuns(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	for _, p := range pages {
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, p.problems)
			if p.path == registryPage {
				serveRegistry(t)
			}
			for _, b := range p.blocks {
				b.run(t)
			}
		})
	}
}

// serveRegistry makes the namespace that the page applies again.
func serveRegistry(t *testing.T) {
	t.Helper()
	tn := &env.Tenant{T: t, Cluster: cluster, Namespace: registryNamespace}
	tn.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: registryNamespace}})
	tn.Registry("registry")
}

func (b block) run(t *testing.T) {
	t.Helper()
	switch b.language {
	case "yaml":
		b.apply(t)
	case "console":
		for _, c := range b.commands() {
			start := time.Now()
			got, err := output(t.Context(), c.line, "")
			t.Logf("%s $ %s", time.Since(start).Round(time.Millisecond), c.line)
			require.NoErrorf(t, err, "%s:%d: $ %s\n%s", b.path, c.number, c.line, got)
			if c.want != "" && !matches(c.want, got) {
				require.Equalf(t, c.want, got, "%s:%d: $ %s (here, ... stands for anything)", b.path, c.number, c.line)
			}
		}
	case "sh":
		for _, problem := range b.checkNames(root) {
			t.Error(problem)
		}
	default:
		t.Errorf("%s:%d: a block of language %q is not run by anything", b.path, b.number, b.language)
	}
}

func (b block) apply(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got, err := output(t.Context(), "kubectl apply -f -", b.text)
		if err != nil && !strings.Contains(got, "no matches for kind") {
			require.NoErrorf(t, err, "%s:%d: %s", b.path, b.number, got)
		}
		assert.NoErrorf(c, err, "%s:%d: %s", b.path, b.number, got)
	}, servedWithin, 500*time.Millisecond)
}

// outputs remembers what commands printed that touch no cluster of ours: several pages show the same.
var outputs sync.Map

type result struct {
	text string
	err  error
}

func output(ctx context.Context, line, stdin string) (string, error) {
	if !strings.HasPrefix(line, "bin/") {
		return shell(ctx, line, stdin)
	}
	once, _ := outputs.LoadOrStore(line, sync.OnceValue(func() result {
		text, err := shell(context.WithoutCancel(ctx), line, "")
		return result{text, err}
	}))
	r := once.(func() result)()
	return r.text, r.err
}

func shell(ctx context.Context, line, stdin string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "PATH="+kubectlDir+":"+os.Getenv("PATH"), "KUBECONFIG="+cluster.Kubeconfig, "OPERATOR_NAMESPACE=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestPagesMeetNowhere(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	owner := map[string]string{}
	for _, p := range pages {
		for _, name := range p.namespaces() {
			require.Containsf(t, []string{"", p.path}, owner[name], "namespace %s of %s", name, p.path)
			owner[name] = p.path
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	for _, p := range pages {
		for _, target := range p.links() {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(p.path), target))
			assert.NotErrorIsf(t, err, fs.ErrNotExist, "%s links to %s", p.path, target)
		}
	}
}
