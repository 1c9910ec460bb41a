// Package corpus installs real operators: the bundles in the directory that CORPUS_DIR names (default ../shared/corpus,
// relative to the repository's root), in every install mode that each bundle supports. If the directory does not exist,
// the tests are skipped with a message.
//
// For each bundle, an account gets exactly what `kubectl remit rbac` prints. The install must succeed in one pass,
// without a refused request, and leave nothing behind when it is removed. Then one verb after the other is removed from
// the printed rules, and preflight must report exactly that verb.
//
// The preflight check covers all bundles, without a cluster. The installs cover a fixed sample of bundles of different
// kinds, each in its narrowest and its widest mode. CORPUS=all (make corpus) installs all of them, which takes about 15
// minutes on two cores. E2E_DIR keeps the control plane's state, and CORPUS_RUN (a regular expression) selects cases by
// name.
//
// testdata/shapes has hand-written bundles. Each has one unusual property that occurs in published operators. They are
// installed in the same way, with or without CORPUS_DIR.
//
// The upgrades of some real operators are also tested, with an account that has all permissions, along the edges of
// their upgrade graphs. For each edge, the test reports that it was tested, or why current clusters cannot run it. The
// default is some edges of one package; CORPUS_WALK names another walk, which is then tested completely, and CORPUS=all
// tests all walks.
package corpus
