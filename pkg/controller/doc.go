// Package controller sets up the controllers of the programs catalog, olm and extension, and the dependencies that they
// share. Each controller is implemented in the package for its kind.
package controller
