package status

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesAreNotTruncated(t *testing.T) {
	for _, row := range []struct {
		name  string
		lines []string
		limit int
		want  string
	}{
		{"none", nil, 10, ""},
		{"all", []string{"aaa", "bbb"}, 8, "aaa; bbb"},
		{"some", []string{"aaa", "bbb", "ccc", "d"}, 8, "aaa; bbb; and 2 more"},
		{"a line that is too long", []string{"aaa", "bbbbbbbbbbbbbbbb", "c"}, 8, "aaa; and 2 more"},
		{"none fits", []string{"aaaaaaaaaa", "b"}, 8, "entries too long to show here: 2"},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, Lines(row.lines, row.limit)) })
	}
}
