package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// figures collects the durations from the grant to Complete.
type figures []time.Duration

func (f *figures) add(t *testing.T, d time.Duration) {
	t.Helper()
	t.Logf("from grant to Complete: %s", d.Round(time.Millisecond))
	*f = append(*f, d)
}

func (f figures) log(t *testing.T) {
	t.Helper()
	slices.Sort(f)
	if n := len(f); n > 0 {
		t.Logf("from grant to Complete: p50 %s, max %s, %d plans", f[n/2].Round(time.Millisecond), f[n-1].Round(time.Millisecond), n)
	}
}

// The test does not run in parallel, and it runs one plan at a time, so that the durations are meaningful.
func TestAGrantWakesWaitingPlans(t *testing.T) {
	bounded(t)
	var all figures
	t.Run("all permissions, as pasted from the message", func(t *testing.T) {
		tn := subscribed(t, catalogSample)
		tn.Group(env.AccountName, tn.Namespace)
		message := tn.PermissionsMissing()
		tn.NothingWritten()
		all.add(t, tn.UntilComplete(func() { tn.Paste(message) }))
		tn.Succeeded(bundle.CSV)
	})
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	for _, piece := range env.Pieces() {
		t.Run("the last missing piece is "+piece.Name, func(t *testing.T) {
			tn := subscribed(t, catalogSample)
			tn.Group(env.AccountName, tn.Namespace)
			rules := tn.GrantAllButNamespaced(b, bundle.Package)
			piece.Before(tn, rules)
			tn.PermissionsMissing()
			all.add(t, tn.UntilComplete(func() { piece.Last(tn, rules) }))
		})
	}
	all.log(t)
}
