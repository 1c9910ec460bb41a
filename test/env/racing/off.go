//go:build !race

package racing

// Slowdown is the factor by which tests may be slower than usual.
const Slowdown = 1
