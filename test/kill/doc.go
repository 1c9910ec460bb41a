// Package kill tests that programs can be killed at every point of their work: with SIGKILL, after the API server has
// processed a request and before the program receives the response.
package kill
