package audit

import (
	"fmt"
	"net/http"
	"time"
)

// AfterGrant returns the requests after the last one that the API server refused because its authorizer observed a grant late.
// complete is a time before the last object of the grant was written. It returns an error if a request was refused before that
// time, or was not accepted when it was repeated.
func AfterGrant(sent []Event, complete time.Time) ([]Event, error) {
	refused, rest := map[string]Event{}, 0
	for n, e := range sent {
		key := e.Verb + " " + e.RequestURI
		delete(refused, key)
		if e.Response.Code != http.StatusForbidden {
			continue
		}
		if e.Received.Before(complete) {
			return nil, fmt.Errorf("refused before the grant was complete: %s", e)
		}
		refused[key], rest = e, n+1
	}
	for _, e := range refused {
		return nil, fmt.Errorf("refused despite the grant: %s", e)
	}
	return sent[rest:], nil
}
