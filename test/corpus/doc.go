// Package corpus holds Remit against real operators: the bundles of a folder that CORPUS_DIR names
// (../shared/corpus from the repository's root, if that is not set), in every install mode that each
// supports, and skips, saying so, where there is none.
//
// For each of them an account gets exactly what `kubectl remit rbac` prints and nothing else; the install
// must succeed in one round, with not one request refused, and leave nothing behind when it goes. Then one
// verb after the other is taken away from what was printed: the preflight must name just that.
//
// The latter is asked of all bundles, without a cluster. Installed is a fixed sample of bundles of different
// kinds, each in the narrowest and the widest of its modes; CORPUS=all installs all (make corpus), which takes
// about a quarter of an hour of two cores. E2E_DIR keeps the control plane's state, and CORPUS_RUN (a regular
// expression) picks cases by name.
//
// testdata/shapes has bundles of our own, made by hand. Each is odd in one way that occurs among published operators. They
// are installed in the same way, with or without CORPUS_DIR.
//
// The upgrades of some real operators are walked too, by an account that may do all, edge by edge of their graphs; of each edge
// it is said that it was walked, or why no cluster of today can. By default that is some edges of one package;
// CORPUS_WALK names another walk, which is then walked in full, and CORPUS=all walks all.
package corpus
