// Package cli contains the common parts of the subcommands of kubectl remit: exit codes, kubectl's flags and
// output formats. It is independent of what the commands do.
package cli
