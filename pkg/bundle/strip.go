package bundle

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func newLineReader(raw []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(raw)) }

// withoutOwnerMarks drops labels by which an object could pass for another install's.
func withoutOwnerMarks(labels map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		switch k {
		case names.LabelManaged, names.LabelOwner, names.LabelOwnerKind, names.LabelOwnerNamespace,
			names.LabelLineage, names.LabelCopiedFrom, names.LabelPermissionsHash:
			continue
		}
		if !strings.HasPrefix(k, names.LabelComponentPrefix) {
			out[k] = v
		}
	}
	return out
}

func toAny(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
