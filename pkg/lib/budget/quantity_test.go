package budget

import (
	"math/rand/v2"
	"regexp"
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

// costly is what CheckQuantities finds as a regular expression, which takes 100 times as long.
var costly = regexp.MustCompile(`"[\x{85}\p{Z}]*[+-]?(?:(?:[0-9.]+[eE](?:-[0-9]{4,}|[+]?[0-9]{10,})|[0-9.]{19,}[eE][+]?[0-9]{4,})[\x{85}\p{Z}]*|[0-9.]{100,}[^"]*)"`)

func TestCostlyQuantitiesAreFoundAnywhere(t *testing.T) {
	parts := []string{
		`"`, `"`, `"`, `\"`, "1", "0", ".", "1234", "1234567890", strings.Repeat("7", 18), strings.Repeat("1.", 50), strings.Repeat("9", 99), "e", "E", "e-", "e+", "e-1234",
		"-", "+", " ", "\t", "\u0085", "\u00a0", "\u3000", "\u00e9", "\x85", "\xe3\x80", "\xff", "m", "Gi", "}", ",", ":",
	}
	random, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 200_000 {
		text := `"`[:random.IntN(2)]
		for range random.IntN(9) {
			text += parts[random.IntN(len(parts))]
		}
		if random.IntN(3) > 0 {
			text += `"`
		}
		want := costly.FindString(text)
		if want == "" {
			require.NoError(t, CheckQuantities([]byte(text)), "%q", text)
			continue
		}
		found++
		var err *QuantityError
		require.ErrorAs(t, CheckQuantities([]byte(text)), &err, "%q", text)
		require.Equal(t, want[1:min(len(want)-1, maxQuantity+1)], err.Text, "%q", text)
	}
	require.Greater(t, found, 1000)
}

// 80,000 quantities with the exponent -999 took 0.25 s to decode, and as long again in the client.
func TestManySlowQuantitiesAreRefused(t *testing.T) {
	for _, text := range []string{`"1e-99",`, `"-1.5E-999 ",`} {
		require.NoError(t, CheckQuantities([]byte(strings.Repeat(text, maxSlow))))
		require.ErrorContains(t, CheckQuantities([]byte(strings.Repeat(text, maxSlow+1))), "more than 1000 quantities")
	}
	require.NoError(t, CheckQuantities([]byte(strings.Repeat(`"1e-9","1e999","a1e-99",`, 2*maxSlow))))
}
