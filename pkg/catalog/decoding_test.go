package catalog

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Small documents, such as those of most catalogs, do not wait behind the large ones of other tenants.
func TestSmallDocumentsDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in its bubble, waiting for ever is an error
		d := NewDecoding()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		large, err := d.Begin(t.Context(), DecodingMemory+1)
		require.NoError(t, err)
		_, err = d.Begin(ended, smallDocument+1)
		require.ErrorIs(t, err, context.Canceled, "a large one waits")
		var ends []func()
		for range smallMemory / smallDocument {
			end, err := d.Begin(t.Context(), smallDocument)
			require.NoError(t, err)
			ends = append(ends, end)
		}
		_, err = d.Begin(ended, 1)
		require.ErrorIs(t, err, context.Canceled, "small ones are limited, too")
		ends[0]()
		_, err = d.Begin(t.Context(), 1)
		require.NoError(t, err)
		large()
		_, err = d.Begin(t.Context(), smallDocument+1)
		require.NoError(t, err)
	})
}
