// Package differential holds Remit's rule engine (pkg/rbac) against the code that decides in the end:
//
//	kubernetes_test.go  Kubernetes' own escalation check and RBAC authorizer, as a program (controlplane/differential),
//	                    over random clusters; counts pairs of what is held and what is wanted
//	rows_test.go        the 69 rows of the design (package rows), and a real API server
//	server_test.go      a real API server, which is asked as a real ServiceAccount to write random roles and bindings
//
// Not one verdict may differ. A part runs with the other tests, and all of it by `make differential`. What is
// random is drawn from a seed that a failure prints:
//
//	DIFFERENTIAL_SEED=7 DIFFERENTIAL_PAIRS=1000000 DIFFERENTIAL_WRITES=2000 go test -v ./test/differential
package differential
