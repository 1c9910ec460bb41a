package budget

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantitiesThatTakeLongToParseAreRefused(t *testing.T) {
	for _, text := range []string{
		"1e-2147483647", "1E-2147483647", "-1.5e-999999", "+1e-0000000009999999", "1e4294967286", "1e+3000000000", ".5e-9999", strings.Repeat("1", 100_000),
		"0." + strings.Repeat("0", 1000) + "1", strings.Repeat("9", 1000) + "Gi",
		" 1e-2147483647", "1e-2147483647\u00a0", "\u0085\u3000-1e-9999", "\u20031e4294967286 ", "1111111111111111111e9999999", "0.000000000000000001E+9999 ",
	} {
		err := CheckQuantities([]byte(`{"cpu":"` + text + `","x":1}`))
		require.ErrorAs(t, err, new(*QuantityError), "%.30s", text)
		require.Less(t, len(err.Error()), 250)
	}
	for _, text := range []string{"100m", "1e3", "1e-9", "1E", "12E", "0.5Gi", "1e99", "1e-999", "0e100", "31e4567", "e12345", "1e999999999", "deadbeef1e1234 ", "v1e-999x", "111111111111111111e9999", "111111111111111111111e999", " 1e-999 ", `\"1e-9999\"`, ""} {
		require.NoError(t, CheckQuantities([]byte(`{"cpu":"`+text+`","x":1}`)), text)
	}
}
