package budget

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountsStructuresOutsideOfStrings(t *testing.T) {
	list := func(entry string, n int) []byte { return []byte("[" + strings.Repeat(entry+",", n) + `""]`) }
	for name, text := range map[string][]byte{
		"few":                list("{}", MaxStructures),
		"texts":              list(`"{{null"`, MaxStructures),
		"escaped texts":      list(`"\"{\\\"null{\\"`, 2*MaxStructures),
		"texts that end so":  list(`"\\"`, MaxStructures*2),
		"a large text":       list(`"`+strings.Repeat("{,", MaxStructures)+`"`, 1),
		"a text without end": []byte(strings.Repeat(" ", 3*MaxStructures) + `"\`),
	} {
		require.NoError(t, CheckStructures(text), name)
	}
	for name, text := range map[string][]byte{
		"objects":             list("{}", MaxStructures+1),
		"nulls":               list("null", MaxStructures+1),
		"both":                list(`{"a":null}`, MaxStructures/2+1),
		"after escaped texts": list(`"\\",{}`, MaxStructures+1),
		"between texts":       list(`"\"",{"{":"}"}`, MaxStructures+1),
	} {
		require.True(t, json.Valid(text), name)
		require.ErrorContains(t, CheckStructures(text), "more than 20000", name)
	}
}

func TestCountsValuesOutsideOfStrings(t *testing.T) {
	require.False(t, HasMoreValues([]byte(`["`+strings.Repeat(",", 100)+`",1,"\",",[]]`), 3))
	for _, entry := range []string{"{}", "1", `""`, "[]", "null"} {
		list := []byte("[" + strings.Repeat(entry+",", 100) + entry + "]")
		require.True(t, HasMoreValues(list, 99), entry)
		require.False(t, HasMoreValues(list, 100), entry)
	}
}

func TestCountsLevelsOutsideOfStrings(t *testing.T) {
	nested := func(open, end string, n int) []byte {
		return []byte(strings.Repeat(open, n) + `""` + strings.Repeat(end, n))
	}
	for name, nestedIn := range map[string]func(int) []byte{
		"lists":   func(n int) []byte { return nested("[", "]", n) },
		"objects": func(n int) []byte { return nested(`{"]}\"]":`, "}", n) },
		"later":   func(n int) []byte { return []byte(`[[],{},` + string(nested("[", "]", n-1)) + `]`) },
	} {
		require.True(t, json.Valid(nestedIn(MaxLevels)), name)
		require.NoError(t, CheckStructures(nestedIn(MaxLevels)), name)
		require.EqualError(t, CheckStructures(nestedIn(MaxLevels+1)), "lists and objects are nested more than 1000 levels deep", name)
	}
	require.Error(t, CheckStructures(nested("[", "]", 5_000_000)), "a decoder would refuse it")
	require.NoError(t, CheckStructures([]byte(`["`+strings.Repeat("[", 3*MaxLevels)+`"]`)))
	require.NoError(t, CheckStructures([]byte("["+strings.Repeat("[],", 3*MaxLevels)+"[]]")))
}
