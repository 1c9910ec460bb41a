// Package differential compares Remit's rule engine (pkg/rbac) with the code that makes the actual decisions:
//
//	kubernetes_test.go  Kubernetes' own escalation check and RBAC authorizer, as a program (controlplane/differential),
//	                    on random clusters; counts pairs of existing and requested permissions
//	rows_test.go        the 69 corner cases of package rows, and a real API server
//	server_test.go      a real API server, to which a ServiceAccount sends writes of random roles and bindings
//
// Every verdict must be the same. Some of the comparisons run with the other tests, and all of them with
// `make differential`. Random input comes from a seed that a failure prints:
//
//	DIFFERENTIAL_SEED=7 DIFFERENTIAL_PAIRS=1000000 DIFFERENTIAL_WRITES=2000 go test -v ./test/differential
package differential
