package docs

// Every fenced block of README.md and docs/**/*.md runs on the cluster that `kubectl remit run` starts, as a reader would
// run it. The language of the block determines how.
//
//	yaml     is passed unchanged to `kubectl apply -f -`.
//	console  has lines of "$ command", each followed by its expected output, which must be complete and in order.
//	         "..." matches any number of lines if it is alone on a line, and otherwise any text in the line. Lines
//	         that kubectl logs are ignored. A command without output below it must only exit with status 0.
//	sh       does not run. notRun lists these blocks, and the page must tell the reader that they do not run. The make
//	         targets and files in the blocks must exist.
//
// Any other language, an indented block that looks like one of these, or an unlisted sh block fails the test.
//
// Each command runs in a shell after the line that `kubectl remit run` prints for readers, which sets the working
// directory, KUBECONFIG and PATH. "kubectl" is bin/kubectl if `make kubectl` has built it, and otherwise the installed
// one. kubectl wait gets a longer timeout than on the page.
//
// The blocks of a page run in order. Pages run at the same time, so each has its own namespaces and cluster-scoped names.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root = "../.."
	// commandTimeout is the timeout of one command.
	commandTimeout = 4 * time.Minute
	// parallel is the number of pages that run concurrently. They mostly wait.
	parallel = "8"
)

// notRun lists the blocks that do not run, identified by page and first line. says is text from the paragraph before
// the block, which must tell the reader that the block does not run.
var notRun = []unrun{
	{"README.md", "make run ARGS=--exit", "builds everything"},
	{"README.md", "make test", "test a change"},
	{"docs/tasks/try-it.md", "make run ARGS=--exit", "builds what is missing"},
	{"docs/tasks/install-remit.md", "make build", "a cluster of your own"},
	{"docs/tasks/install-remit.md", "kubectl apply --server-side -k manifests/compat", "a cluster of your own"},
	{"docs/tasks/install-remit.md", "kubectl apply --server-side -k manifests/extensions", "a cluster of your own"},
	{"docs/tasks/install-remit.md", "kubectl apply --server-side -k manifests/packages", "a cluster of your own"},
	{"docs/tasks/install-remit.md", "kubectl delete apiservice v1.packages.operators.coreos.com", "Before you remove Remit"},
}

type unrun struct{ page, first, says string }

// is reports whether b is the listed block and the paragraph before it contains the required text.
func (n unrun) is(b block) bool {
	first, _, _ := strings.Cut(b.text, "\n")
	return n.page == b.path && n.first == first && strings.Contains(b.before, n.says)
}

// running is the cluster that all pages share.
var running *demo

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	flag.Parse()
	// A make that runs the tests sets these variables. Readers of the pages do not have them.
	for _, name := range []string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL"} {
		if err := os.Unsetenv(name); err != nil {
			return 1, err
		}
	}
	dir, err := os.MkdirTemp("", "remit-docs-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if running, err = startDemo(dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, running.stop()) }()
	if got, err := running.shell(context.Background(), "kubectl version --client", ""); err != nil {
		return 1, fmt.Errorf("run make kubectl: %w: %s", err, got)
	}
	pages, err := readPages(root)
	if err != nil {
		return 1, err
	}
	var independent sync.WaitGroup
	defer independent.Wait()
	for _, p := range pages {
		p.startIndependent(&independent)
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// startIndependent starts the page's commands that do not use the shared cluster. Some of them take a long time because
// they start their own cluster.
func (p page) startIndependent(started *sync.WaitGroup) {
	for _, b := range p.blocks {
		for _, c := range b.commands() {
			if b.language == "console" && isIndependent(c.line) {
				started.Go(func() { _, _ = output(context.Background(), c.line) })
			}
		}
	}
}

func TestEveryExampleOfTheDocumentationRuns(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	for _, p := range pages {
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, p.problems)
			for _, b := range p.blocks {
				b.run(t)
			}
		})
	}
}

func (b block) run(t *testing.T) {
	t.Helper()
	switch b.language {
	case "yaml":
		got, err := running.shell(t.Context(), "kubectl apply -f -", b.text)
		require.NoErrorf(t, err, "%s:%d: %s", b.path, b.number, got)
	case "console":
		for _, c := range b.commands() {
			start := time.Now()
			got, err := output(t.Context(), c.line)
			t.Logf("%s $ %s", time.Since(start).Round(time.Millisecond), c.line)
			require.NoErrorf(t, err, "%s:%d: $ %s\n%s", b.path, c.number, c.line, got)
			if c.want != "" && !matches(c.want, got) {
				require.Equalf(t, c.want, got, "%s:%d: $ %s (here, ... stands for anything)", b.path, c.number, c.line)
			}
		}
	case "sh":
		assert.Truef(t, slices.ContainsFunc(notRun, func(n unrun) bool { return n.is(b) }), "%s:%d: the block is not run, and notRun does not list it with words from the paragraph before it", b.path, b.number)
		for _, problem := range b.checkNames(root) {
			t.Error(problem)
		}
	case "go":
		assert.Truef(t, b.isPartOf(compiled(t)), "%s:%d: the block does not occur in a Go file in examples/ or in a test of scopedcache", b.path, b.number)
	default:
		t.Errorf("%s:%d: blocks of language %q are not supported", b.path, b.number, b.language)
	}
}

// outputs caches the output of independent commands, because several pages show the same command.
var outputs sync.Map

// isIndependent reports whether a command does not use the shared cluster.
func isIndependent(line string) bool { return strings.HasPrefix(line, "bin/") }

type result struct {
	text string
	err  error
}

func output(ctx context.Context, line string) (string, error) {
	if !isIndependent(line) {
		return running.shell(ctx, line, "")
	}
	once, _ := outputs.LoadOrStore(line, sync.OnceValue(func() result {
		text, err := running.shell(context.WithoutCancel(ctx), line, "")
		return result{text, err}
	}))
	r := once.(func() result)()
	return r.text, r.err
}

func TestMakeRunIsTheCommandThatThePagesRun(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"run":             "bin/kubectl-remit run",
		"run ARGS=--exit": "bin/kubectl-remit run --exit",
		"run BUNDLES=b":   `bin/kubectl-remit run --bundles "b"`,
	} {
		got, err := output(t.Context(), "make --no-print-directory -n "+words+" | tail -n 1")
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(strings.Fields(got), " "))
	}
}

func TestPagesNameTheBlocksThatDoNotRun(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	for _, n := range notRun {
		assert.Truef(t, slices.ContainsFunc(pages, func(p page) bool { return slices.ContainsFunc(p.blocks, n.is) }),
			"%s has no block %q after %q", n.page, n.first, n.says)
	}
}

func TestPagesLinkToTheInstructionsForTheirExamples(t *testing.T) {
	t.Parallel()
	pages, err := readPages(root)
	require.NoError(t, err)
	for _, p := range pages {
		if slices.ContainsFunc(p.blocks, func(b block) bool { return b.language != "sh" && b.language != "go" }) {
			assert.Containsf(t, p.text, "README.md#the-examples)", "%s does not link to how its examples are run", p.path)
		}
	}
}

// compiled returns the text of the Go files from which the documentation may quote. These files are compiled and have
// their own tests. Indentation and empty lines are ignored.
func compiled(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"examples/*/*.go", "pkg/lib/scopedcache/*_test.go"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			out = append(out, flat(string(text)))
		}
	}
	return out
}

func (b block) isPartOf(files []string) bool {
	return slices.ContainsFunc(files, func(text string) bool { return strings.Contains(text, flat(b.text)) })
}

func flat(code string) string {
	var out strings.Builder
	for line := range strings.Lines(code) {
		if trimmed := strings.TrimSpace(line); trimmed != "" {
			out.WriteString(trimmed + "\n")
		}
	}
	return out.String()
}

func TestPagesUseDistinctNames(t *testing.T) {
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

func TestLinkTargetsExist(t *testing.T) {
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
