package corpus

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/corpus"
)

// sample lists the bundles that run by default: small and large, with and without cluster permissions, webhooks,
// required CRDs, native APIs, RBAC as bundle objects, long names and malformed metadata.
var sample = []string{
	"argocd-operator/0.18.0",                      // over 4 MB
	"awss3-operator-registry/1.0.1",               // requires CRDs, contains none
	"camel-k/2.10.1",                              // three modes
	"cert-manager/1.16.5",                         // Roles in its own namespace and ClusterRoles
	"cockroachdb/6.0.0",                           // three modes, Services
	"edp-keycloak-operator/1.35.0",                // 86 ClusterRoles
	"etcd/0.9.4-clusterwide",                      // its own namespace or all namespaces
	"eventing-kogito/1.2.0",                       // malformed dependencies
	"external-secrets-operator/0.11.0",            // four modes
	"keycloak-operator/26.7.1",                    // native APIs
	"kube-green/0.7.1",                            // metrics behind a proxy
	"mercury-operator/1.0.2",                      // requires CRDs of other packages
	"microcks/1.10.0",                             // no cluster permissions
	"observability-operator/0.0.28",               // ServiceMonitors and PrometheusRules
	"odoo-operator/0.0.2",                         // three rules
	"prometheus/0.14.0",                           // CRDs of a version that is no longer served
	"prometheus/0.56.3",                           // a typical bounded install
	"rabbitmq-messaging-topology-operator/1.10.0", // a manifest as long as a reader's buffer
	"trustify-operator/0.1.0-alpha.9",             // its own namespace only
	"universal-crossplane/1.5.1-up.1",             // RBAC as bundle objects
	"vault-config-operator/0.8.52",                // 86 webhooks
}

// large lists the bundles of the sample that are installed only in their widest mode by default, because their
// CustomResourceDefinitions and ClusterRoles keep the API server busy the longest.
var large = []string{
	"camel-k/2.10.1",
	"edp-keycloak-operator/1.35.0",
	"external-secrets-operator/0.11.0",
	"keycloak-operator/26.7.1",
}

// published is a bundle in the corpus.
type published struct {
	dir, pkg, version string
	*bundle.Bundle
}

func (p *published) name() string { return p.pkg + "/" + p.version }

// testCase is a bundle in one of its install modes.
type testCase struct {
	*published
	mode operatorsv1alpha1.InstallModeType
	// namespace is the case's own namespace; targets are the target namespaces of its OperatorGroup, if it lists any.
	namespace string
	targets   []string
	// warnings are the warnings that the case's InstallPlan must contain when it is Complete.
	warnings []string
	// extension is true if a ClusterExtension without a ServiceAccount installs the bundle, instead of a Subscription.
	extension bool
	// removals are the ways in which the operator is uninstalled. Before each but the first, it is installed again.
	removals []removal
}

func (c *testCase) name() string {
	name := c.published.name() + "/" + string(c.mode)
	if c.extension {
		name += "/ClusterExtension"
	}
	return name
}

// args returns the arguments of kubectl remit rbac for the case.
func (c *testCase) args() []string {
	if c.extension {
		return c.extensionArgs()
	}
	args := []string{c.dir, "--account=" + c.namespace + "/" + accountName, "--install-mode=" + string(c.mode), "--with-account"}
	if c.mode != operatorsv1alpha1.InstallModeTypeOwnNamespace && len(c.targets) > 0 {
		args = append(args, "--target-namespaces="+strings.Join(c.targets, ","))
	}
	return args
}

// cases returns a case for each bundle and each mode that the function modes returns for the bundle. The names of the cases'
// namespaces begin with the prefix.
func cases(t *testing.T, prefix string, bundles []*published, modes func(*published) []operatorsv1alpha1.InstallModeType) []*testCase {
	t.Helper()
	pick, err := regexp.Compile(os.Getenv("CORPUS_RUN"))
	require.NoError(t, err)
	var out []*testCase
	for i, p := range bundles {
		all := modes(p)
		for n, mode := range all {
			c := &testCase{published: p, mode: mode, namespace: fmt.Sprintf("%s-%03d-%s", prefix, i, strings.ToLower(string(mode[:1])))}
			c.removals = removals(n, len(all))
			switch mode {
			case operatorsv1alpha1.InstallModeTypeOwnNamespace:
				c.targets = []string{c.namespace}
			case operatorsv1alpha1.InstallModeTypeSingleNamespace:
				c.targets = []string{c.namespace + "-x"}
			case operatorsv1alpha1.InstallModeTypeMultiNamespace:
				c.targets = []string{c.namespace + "-x", c.namespace + "-y"}
			}
			if pick.MatchString(c.name()) {
				out = append(out, c)
			}
		}
	}
	return out
}

// allModes returns the modes that a bundle supports, in the bundle's order. All bundles list the narrowest mode first.
func allModes(p *published) []operatorsv1alpha1.InstallModeType {
	var out []operatorsv1alpha1.InstallModeType
	for _, m := range p.CSV.Spec.InstallModes {
		if m.Supported {
			out = append(out, m.Type)
		}
	}
	return out
}

// endModes returns the narrowest and the widest mode that a bundle supports.
func endModes(p *published) []operatorsv1alpha1.InstallModeType {
	all := allModes(p)
	return slices.Compact([]operatorsv1alpha1.InstallModeType{all[0], all[len(all)-1]})
}

// sampleModes returns the modes in which a bundle of the sample is installed.
func sampleModes(p *published) []operatorsv1alpha1.InstallModeType {
	out := endModes(p)
	if slices.Contains(large, p.name()) {
		return out[len(out)-1:]
	}
	return out
}

// isComplete reports whether all bundles are tested, and not only a sample.
func isComplete() bool { return os.Getenv("CORPUS") == "all" }

// installed returns the cases to install: the sample, or all cases with CORPUS=all. It returns none if the corpus does not exist.
func installed(t *testing.T) []*testCase {
	t.Helper()
	if _, err := corpus.Find("bundles"); err != nil {
		t.Log(err)
		return nil
	}
	modes := sampleModes
	if isComplete() {
		modes = allModes
	}
	return cases(t, "corpus", chosen(t, sample), modes)
}

// chosen returns the given sample of bundles, or all bundles with CORPUS=all.
func chosen(t *testing.T, sample []string) []*published {
	t.Helper()
	if isComplete() {
		return everything(t)
	}
	return readAll(t, corpus.Dir(t, "bundles"), sample)
}

func everything(t *testing.T) []*published {
	t.Helper()
	root := corpus.Dir(t, "bundles")
	dirs, err := filepath.Glob(filepath.Join(root, "*", "*"))
	require.NoError(t, err)
	var names []string
	for _, dir := range dirs {
		names = append(names, filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir))
	}
	return readAll(t, root, names)
}

// reading caches bundles for all tests, keyed by directory.
var reading sync.Map

func readAll(t *testing.T, root string, names []string) []*published {
	t.Helper()
	out := make([]*published, 0, len(names))
	for _, name := range names {
		dir := filepath.Join(root, filepath.FromSlash(name))
		p, ok := reading.Load(dir)
		if !ok {
			p = read(t, dir)
			reading.Store(dir, p)
		}
		out = append(out, p.(*published))
	}
	slices.SortFunc(out, func(a, b *published) int { return cmp.Compare(a.name(), b.name()) })
	return out
}

func read(t *testing.T, dir string) *published {
	t.Helper()
	p, err := open(dir)
	require.NoError(t, err, dir)
	return p
}

// open reads the only bundle of a directory.
func open(dir string) (*published, error) {
	snapshot, err := fbc.LoadDirectory(context.Background(), os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	for _, pkg := range snapshot.Packages {
		for name := range pkg.Bundles {
			content, err := snapshot.Reader.Content(context.Background(), pkg.Name, "", name)
			if err != nil {
				return nil, err
			}
			b, err := bundle.ParseContent(context.Background(), &catalog.Content{Manifests: content.Manifests})
			if err != nil {
				return nil, err
			}
			return &published{dir: dir, pkg: pkg.Name, version: filepath.Base(dir), Bundle: b}, nil
		}
	}
	return nil, fmt.Errorf("no bundle in %s", dir)
}
