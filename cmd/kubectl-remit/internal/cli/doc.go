// Package cli is what the subcommands of kubectl remit have in common: how they end, the flags that
// every kubectl command has, and the form of what they print. It knows nothing of what they are for.
package cli
