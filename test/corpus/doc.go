// Package corpus installs real operators: the bundles in the directory that CORPUS_DIR names (default ../shared/corpus,
// relative to the repository's root), in every install mode that each bundle supports. If the directory does not exist,
// the tests are skipped with a message.
//
// For each bundle, an account gets exactly the permissions that `kubectl remit rbac` prints. The install must succeed
// in one pass, without a refused request. `kubectl remit uninstall` must leave nothing behind except
// CustomResourceDefinitions, and with --crds nothing at all. Then one verb of each printed rule is removed in turn, and
// preflight must report exactly that verb.
//
// A bundle that is installed in several modes is uninstalled without --crds in the first mode, and with --crds in the others.
// With a single mode, it is installed and uninstalled in both ways, one after the other.
//
// By default, the tests use a fixed sample of bundles of different kinds. Each is installed in its narrowest and its widest
// mode, except that large ones are installed only in their widest. The preflight check needs no cluster and covers all
// modes. CORPUS=all (make corpus) uses all bundles and all modes, which takes about 15 minutes on two cores. If E2E_DIR
// names a directory, the control plane's state is kept there. CORPUS_RUN (a regular expression) selects cases by name.
//
// The same tests run for ClusterExtensions without a ServiceAccount, with each bundle in the widest mode that a
// ClusterExtension can use. By default, only a few bundles are installed; CORPUS=all installs all of them, which
// doubles the time.
//
// testdata/shapes has hand-written bundles. Each has one unusual property that occurs in published operators. They are
// installed in the same way on the same cluster, even without CORPUS_DIR, and uninstalled with --crds.
//
// The upgrades of some real operators are also tested, along the edges of their upgrade graphs and with an account that
// has all permissions. For each edge, the test reports that it was tested, or why it cannot run on a current cluster.
// By default, only some edges of one package are tested. CORPUS_WALK names a walk to test completely, and CORPUS=all
// tests all walks.
package corpus
