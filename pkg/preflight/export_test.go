package preflight

import "strings"

// Paste returns the RBAC in a Summary, as a user copies it; ok is false if the Summary contains none.
func Paste(summary string) (manifests string, ok bool) {
	_, manifests, ok = strings.Cut(summary, "\n"+pasteHead+"\n")
	return manifests, ok
}
