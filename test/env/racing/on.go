//go:build race

package racing

// Slowdown is by how much tests are slower than usual.
const Slowdown = 10
