// Package controller sets up the controllers of Remit's three programs and the dependencies that they share. Each
// controller is implemented in the package for its kind.
package controller
