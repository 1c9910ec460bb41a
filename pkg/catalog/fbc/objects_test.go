package fbc

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const withOthers = `schema: olm.package
name: a
defaultChannel: stable
description: is not part of a Snapshot
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}]
---
schema: olm.bundle
package: a
name: a.v1
image: example.com/a:v1
properties:
- {type: olm.package, value: {packageName: a, version: 1.0.0}}
- {type: olm.csv.metadata, value: {displayName: A}}
---
schema: example.com/custom
package: a
name: note
`

func TestObjectsReceivesEveryObject(t *testing.T) {
	var mu sync.Mutex
	var got []string
	loader := Loader{Objects: func(schema, pkg, name string, document []byte) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %q %q %s", schema, pkg, name, document))
		return nil
	}}
	snap, err := loader.Load(t.Context(), fstest.MapFS{"a.yaml": {Data: []byte(withOthers)}})
	require.NoError(t, err)
	require.Len(t, snap.Packages, 1)
	slices.Sort(got)
	require.Equal(t, []string{
		`example.com/custom "a" "note" {"name":"note","package":"a","schema":"example.com/custom"}`,
		`olm.bundle "a" "a.v1" {"image":"example.com/a:v1","name":"a.v1","package":"a","properties":[{"type":"olm.package","value":{"packageName":"a","version":"1.0.0"}},` +
			`{"type":"olm.csv.metadata","value":{"displayName":"A"}}],"schema":"olm.bundle"}`,
		`olm.channel "a" "stable" {"entries":[{"name":"a.v1"}],"name":"stable","package":"a","schema":"olm.channel"}`,
		`olm.package "" "a" {"defaultChannel":"stable","description":"is not part of a Snapshot","name":"a","schema":"olm.package"}`,
	}, got)
}

func TestAnErrorOfObjectsStopsTheLoad(t *testing.T) {
	full := errors.New("full")
	_, err := Loader{Objects: func(string, string, string, []byte) error { return full }}.Load(t.Context(), fstest.MapFS{"a.yaml": {Data: []byte(withOthers)}})
	require.ErrorIs(t, err, full)
}
