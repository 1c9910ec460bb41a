package status

import (
	"fmt"
	"strings"
)

// Lines joins whole lines with "; ", as many as fit into about limit bytes, and reports the number of omitted ones. It
// keeps their order.
func Lines(lines []string, limit int) string {
	var out strings.Builder
	for i, line := range lines {
		if out.Len()+len(line) > limit {
			return left(out.String(), len(lines)-i)
		}
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(line)
	}
	return out.String()
}

func left(shown string, n int) string {
	if shown == "" {
		return fmt.Sprintf("%d too long to show here", n)
	}
	return fmt.Sprintf("%s; and %d more", shown, n)
}
