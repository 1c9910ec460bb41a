// Package controller lists the controllers of the two programs and hands them what they share. It
// decides nothing: each controller lives in the folder of its kind.
package controller
