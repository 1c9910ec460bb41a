package probe

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestTrackerCountsConsecutiveResults(t *testing.T) {
	for _, test := range []struct {
		name    string
		probe   corev1.Probe
		results string // + is a success, - a failure
		want    string // the verdict after each result: healthy, unhealthy or . for undecided
	}{
		{name: "defaults to one success and three failures", results: "+--+---", want: "h..h..u"},
		{name: "waits for the success threshold", probe: corev1.Probe{SuccessThreshold: 2}, results: "+-++", want: "...h"},
		{name: "fails after one failure if configured", probe: corev1.Probe{FailureThreshold: 1}, results: "-+", want: "uh"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracker, got := newTracker(&test.probe), ""
			for _, r := range test.results {
				got += map[verdict]string{healthy: "h", unhealthy: "u", undecided: "."}[tracker.add(r == '+')]
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestWatchReportsReadinessSoonerThanItsPeriod(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	addr := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "https://"))
	p := &corev1.Probe{PeriodSeconds: 3600, FailureThreshold: 2, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Scheme: corev1.URISchemeHTTPS, Path: "/", Port: intstr.FromString("web"),
	}}}
	container := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(addr.Port())}}}
	var verdicts []bool
	Watch(t.Context(), Target{Container: container, Host: addr.Addr().String()}, p, func(ok bool) bool {
		verdicts = append(verdicts, ok)
		return !ok
	})
	require.Equal(t, []bool{true}, verdicts, "failures between the periods do not count")
}
