// Package sat finds the preferred subset of variables that satisfies constraints, or reports which constraints clash.
// It knows nothing about operators or catalogs. It uses the SAT solver gini.
//
// The preferred solution does not depend on how it is found. It is defined as follows: take the mandatory variables in
// input order. For each taken variable in turn, consider its dependencies in order. If no candidate of a dependency is
// taken yet, take the first candidate for which a solution exists that includes everything taken so far. The solution
// is the set of taken variables: it contains only what is mandatory or needed.
package sat
