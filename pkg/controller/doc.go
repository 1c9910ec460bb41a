// Package controller sets up the controllers of the two programs and their shared dependencies. The
// controllers themselves are in the packages of their kinds.
package controller
