package image_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
)

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// An entry of a list takes three bytes in a manifest, and more than a hundred in memory. The decoder also adds one for a value that is no
// object.
func TestManifestsOfManyValuesAreNotDecoded(t *testing.T) {
	const (
		manifestType = "application/vnd.oci.image.manifest.v1+json"
		indexType    = "application/vnd.oci.image.index.v1+json"
	)
	list := func(entry string) string {
		n := image.MaxManifestBytes/(len(entry)+1) - 1000
		return "[" + strings.Repeat(entry+",", n) + entry + "]"
	}
	config := `{"history":` + list("{}") + `}`
	for name, row := range map[string]struct{ mediaType, text string }{
		"layers":        {manifestType, `{"schemaVersion":2,"mediaType":"` + manifestType + `","layers":` + list("{}") + `}`},
		"numbers":       {manifestType, `{"schemaVersion":2,"mediaType":"` + manifestType + `","layers":` + list("1") + `}`},
		"images":        {indexType, `{"schemaVersion":2,"mediaType":"` + indexType + `","manifests":` + list("{}") + `}`},
		"configuration": {manifestType, fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":%q},"layers":[]}`, manifestType, len(config), digestOf(config))},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				text := row.text
				switch path.Base(path.Dir(req.URL.Path)) {
				case "manifests":
					w.Header().Set("Content-Type", row.mediaType)
				case "blobs":
					text = config
				default:
					return
				}
				_, _ = bytes.NewBufferString(text).WriteTo(w)
			}))
			defer server.Close()
			host := strings.TrimPrefix(server.URL, "http://")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			opened, err := open(t, image.Options{Plain: []string{host}}, image.Access{}, host+"/team/op:v1")
			if name == "configuration" {
				require.NoError(t, err)
				_, err = opened.Config(t.Context())
			}
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, image.ErrImage)
			require.ErrorContains(t, err, "has more than 5000 values")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
		})
	}
}
