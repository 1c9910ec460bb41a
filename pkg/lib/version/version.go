// Package version identifies the build of a program. It is for display only.
package version

import "runtime/debug"

// number is set at link time for a release (-ldflags -X).
var number = "v0.0.0-dev"

// String returns the version and, if known, the commit.
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
