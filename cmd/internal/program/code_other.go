//go:build !linux

package program

// releaseCode does nothing, because the programs run in Linux containers; elsewhere, they only need to compile.
func releaseCode() error { return nil }
