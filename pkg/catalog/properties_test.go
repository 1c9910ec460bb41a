package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func TestPropertiesText(t *testing.T) {
	require.Empty(t, catalog.PropertiesText(nil))
	require.JSONEq(t, `{"properties":[{"type":"a","value":{"b":1}}]}`,
		catalog.PropertiesText([]catalog.Property{{Type: "a", Value: json.RawMessage(`{"b": 1}`)}}))
	require.Contains(t, catalog.PropertiesText([]catalog.Property{{Type: "a", Value: json.RawMessage(`"<2.0.0"`)}}), `"<2.0.0"`)
	require.Empty(t, catalog.PropertiesText([]catalog.Property{{Type: "a", Value: json.RawMessage(`{`)}}), "invalid JSON is not recorded")
	for _, large := range []string{strings.Repeat("x", catalog.MaxPropertiesText), strings.Repeat("x", catalog.MaxPropertiesText-10)} {
		require.Empty(t, catalog.PropertiesText([]catalog.Property{{Type: "a", Value: json.RawMessage(`"` + large + `"`)}}))
	}
}
