package server

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// Browsers open some types of content in a viewer of their own, so only images are served, and only as what they are.
func TestServesOnlyKnownTypesOfImages(t *testing.T) {
	const png, pdf, script = "\x89PNG\r\n\x1a\nx", "%PDF-1.7", "<html><script>"
	for _, row := range []struct{ kind, data, want string }{
		{"image/png", png, "image/png"}, {" Image/PNG ", png, "image/png"}, {"image/gif", "GIF89a...", "image/gif"},
		{"image/svg+xml", script, "image/svg+xml"}, // served with a policy that executes nothing
		{"application/pdf", pdf, ""}, {"text/html; charset=utf-8", script, ""}, {"video/webm", "\x1a\x45\xdf\xa3", ""}, {"image/bmp", "BMx", ""}, {"", png, ""},
		{"image/png", script, ""}, {"image/png", "GIF89a...", ""}, {"image/jpeg", pdf, ""}, {"image/png", "", ""},
	} {
		data, kind := decodeIcon(packagesv1.Icon{Base64Data: base64.StdEncoding.EncodeToString([]byte(row.data)), Mediatype: row.kind})
		if row.want == "" {
			require.Equal(t, defaultIcon, string(data), "%s %q", row.kind, row.data)
			require.Equal(t, "image/svg+xml", kind)
			continue
		}
		require.Equal(t, row.data, string(data))
		require.Equal(t, row.want, kind)
	}
}
