// Package kill tests that Remit completes an install even if a program is killed at any point: the tests send SIGKILL
// after the API server has processed a request and before the program receives the response.
package kill
