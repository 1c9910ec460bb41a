package packages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/cputime"
)

func TestManyImagesTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(5_000, func(n int) func() {
		var images []string
		for i := range n {
			images = append(images, fmt.Sprintf(`{"image":"i%d"},{"image":"i%d"}`, i, i))
		}
		text := []byte(`{"relatedImages":[` + strings.Join(images, ",") + `]}`)
		return func() { require.Len(t, parse(text).RelatedImages, n) }
	}))
}
