// Package sat finds the preferred subset of variables that satisfies constraints, or says which
// constraints clash. It knows nothing of operators or catalogs; the solver underneath is gini.
//
// The preferred solution is defined without reference to how it is found. Take the mandatory variables in
// the order of the input, and their dependencies in order: of the candidates of a dependency none of which is
// taken yet, the first is taken with which, and with all that was taken before, there is a solution at all.
// What is taken joins the end of the row, and its dependencies come in turn. What was taken in the end is the
// solution: nothing is in it but what is mandatory or was needed.
package sat
