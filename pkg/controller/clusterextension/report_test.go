package clusterextension

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/preflight"
)

// No watch event announces that an obstacle to writing the report was removed.
func TestRetriesAReportThatCouldNotBeWritten(t *testing.T) {
	t.Parallel()
	ext := extension("a")
	obstacle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: ReportName("a")}}
	u := givenUnit(t, interceptor.Funcs{}, ext, obstacle)
	publish := func() (where string, after time.Duration) {
		s := u.begin(ext)
		s.findings.Refuse("ConfigMap ns/x", errStale)
		s.publish(t.Context())
		require.NoError(t, s.unpublished)
		return string(s.findings.Details), s.after
	}
	where, first := publish()
	require.Contains(t, where, "could not be written")
	require.Equal(t, firstRetry, first)

	u.clock.SetTime(u.clock.Now().Add(first / 2))
	where, left := publish()
	require.Contains(t, where, "could not be written", "other events do not cause another attempt")
	require.Equal(t, first-first/2, left)

	u.clock.SetTime(u.clock.Now().Add(left))
	_, second := publish()
	require.Equal(t, 2*first, second, "the delay increases")

	require.NoError(t, u.Client.Delete(t.Context(), obstacle))
	u.clock.SetTime(u.clock.Now().Add(second))
	where, after := publish()
	require.Contains(t, where, "The full report is in ConfigMap remit/"+ReportName("a"))
	require.Zero(t, after)
	written := &corev1.ConfigMap{}
	require.NoError(t, u.Client.Get(t.Context(), client.ObjectKeyFromObject(obstacle), written))
	require.Contains(t, written.Data[preflight.FileReport], "ConfigMap ns/x")
	_, after = publish()
	require.Zero(t, after, "a report that was written is not written again")
}

func TestReportNamesAreValidAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, name := range []string{
		"short", strings.Repeat("a", 253), strings.Repeat("a", 199) + "." + strings.Repeat("b", 50), strings.Repeat("a", 198) + "-b." + strings.Repeat("b", 50),
		strings.Repeat("a", 199) + "-" + strings.Repeat("b", 50),
	} {
		got := ReportName(name)
		require.Empty(t, validation.IsDNS1123Subdomain(got), got)
		require.False(t, seen[got], name)
		seen[got] = true
	}
}
