// Package racing tells tests whether they run with the race detector, which makes them several times slower.
package racing
