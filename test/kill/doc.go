// Package kill tests that Remit completes an install or an upgrade even if a program is killed at any point: the tests send
// SIGKILL after the API server has processed a request and before the program receives the response. They then restart the
// program and compare the result with that of a run without a kill.
package kill
