package audit

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAfterGrant(t *testing.T) {
	complete := time.Now()
	sent := func(uri string, code int, after time.Duration) Event {
		e := Event{Verb: "get", RequestURI: uri, Received: complete.Add(after)}
		e.Response.Code = code
		return e
	}
	early, late := sent("/a", http.StatusForbidden, -time.Second), sent("/a", http.StatusForbidden, time.Second)
	accepted, other := sent("/a", http.StatusOK, 2*time.Second), sent("/b", http.StatusOK, 2*time.Second)
	for name, row := range map[string]struct {
		sent, want []Event
		err        string
	}{
		"no request is refused":               {sent: []Event{accepted, other}, want: []Event{accepted, other}},
		"a refused request is accepted later": {sent: []Event{other, late, accepted, other}, want: []Event{accepted, other}},
		"another request is accepted":         {sent: []Event{late, other}, err: "refused despite the grant"},
		"a request is refused again":          {sent: []Event{late, accepted, late}, err: "refused despite the grant"},
		"a request comes before the grant":    {sent: []Event{early, accepted}, err: "refused before the grant was complete"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AfterGrant(row.sent, complete)
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}
