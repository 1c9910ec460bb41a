// Package docs runs every example of README.md and docs/ as a reader would, against the embedded
// control plane with Remit on it. The convention is at the top of docs_test.go.
package docs
