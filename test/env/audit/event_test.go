package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEndIsAfterTheLastCompleteLine(t *testing.T) {
	line := `{"auditID":"` + strings.Repeat("x", 5000) + `"}` + "\n"
	for name, c := range map[string]struct {
		content string
		want    int
	}{
		"an empty log":                {"", 0},
		"only an incomplete line":     {line[:4500], 0},
		"complete lines":              {line + line, 2 * len(line)},
		"an incomplete last line":     {line + `{"auditID":`, len(line)},
		"a long incomplete last line": {line + line[:4500], len(line)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.log")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			end, err := End(path)
			require.NoError(t, err)
			require.EqualValues(t, c.want, end)
		})
	}
}
