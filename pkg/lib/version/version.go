// Package version says which build a program is. Programs print it; nothing decides by it.
package version

import "runtime/debug"

// number is set at link time for a release (-ldflags -X).
var number = "v0.0.0-dev"

// String is the version, and the commit where the build knows it.
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
