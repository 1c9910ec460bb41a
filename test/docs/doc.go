// Package docs runs every example in README.md and docs/ as a reader would, on the cluster that `kubectl remit run`
// starts. The comment at the top of docs_test.go describes the conventions.
package docs
