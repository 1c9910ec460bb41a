// Package version returns the version of a program's build. Use it only for display.
package version

import "runtime/debug"

// number is the version number. Release builds set it at link time (-ldflags -X).
var number = "v0.0.0-dev"

// String returns the version number and, if it is known, the commit.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return number
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return number + "+" + s.Value
		}
	}
	return number
}
