package listen

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a connection whose client takes the same time for each block, and stops after some.
type slow struct {
	*httptest.ResponseRecorder
	each     time.Duration
	stops    int
	deadline time.Time
	writes   int
}

func (s *slow) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *slow) Write(data []byte) (int, error) {
	if s.writes++; s.writes == s.stops {
		s.each = time.Hour
	}
	if left := time.Until(s.deadline); !s.deadline.IsZero() && left < s.each {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.each)
	return s.ResponseRecorder.Write(data)
}

func TestClientsMustKeepThePace(t *testing.T) {
	for _, tc := range []struct {
		why    string
		each   time.Duration
		stops  int
		blocks int
		want   time.Duration
		fails  bool
	}{
		{"a client with the least speed", time.Second, 0, 40, 40 * time.Second, false},
		{"a client that reads nothing", time.Hour, 0, 40, 10 * time.Second, true},
		{"a client that is too slow for each block", 10*time.Second + 1, 0, 40, 10 * time.Second, true},
		{"a client that is too slow in total", 2 * time.Second, 0, 40, 19 * time.Second, true},
		{"a client that was quick and stops", 0, 31, 40, 10 * time.Second, true},
		{"a response without an end", time.Second, 0, 400, time.Minute, true},
	} {
		t.Run(tc.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &slow{ResponseRecorder: httptest.NewRecorder(), each: tc.each, stops: tc.stops}
				began := time.Now()
				r := Pace{Stall: 10 * time.Second, Rate: blockBytes, Most: time.Minute}.Respond(client)
				n, err := r.Write(make([]byte, tc.blocks*blockBytes))
				require.Equal(t, tc.fails, err != nil, "%v", err)
				require.Equal(t, client.Body.Len(), n)
				require.LessOrEqual(t, time.Since(began).Abs(), tc.want)
				require.Greater(t, time.Since(began), tc.want-3*time.Second)
				writes := client.writes
				_, err = r.Write([]byte("x"))
				require.Equal(t, tc.fails, err != nil)
				require.Equal(t, tc.fails, writes == client.writes, "nothing is written after an error")
			})
		})
	}
}

// The program can need long for the next block, for example while others use the CPU.
func TestOnlyTheTimeOfTheClientCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slow{ResponseRecorder: httptest.NewRecorder(), each: time.Second}
		r := Pace{Stall: 10 * time.Second, Rate: blockBytes, Most: time.Minute}.Respond(client)
		for range 30 {
			_, err := r.Write(make([]byte, blockBytes))
			require.NoError(t, err)
			require.Zero(t, client.deadline)
			r.Flush()
			require.Zero(t, client.deadline)
			time.Sleep(time.Hour)
		}
		r.End()
		require.Equal(t, time.Now().Add(10*time.Second), client.deadline, "what the server has not sent yet")
	})
}

// The kube-apiserver sends the requests of many users on one HTTP/2 connection.
func TestAResponseThatIsNotReadEndsAlone(t *testing.T) {
	const large = 32 << 20
	pace := Pace{Stall: 3 * time.Second, Rate: 1 << 10, Most: 10 * time.Minute}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2 ", http2), func(t *testing.T) {
			failed := make(chan error, 2)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				to := pace.Respond(w)
				defer to.End()
				n := 1
				if r.URL.Path == "/large" {
					n = large
				}
				if _, err := io.WriteString(to, strings.Repeat("x", n)); err != nil {
					failed <- err
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			transport, ok := client.Transport.(*http.Transport)
			require.True(t, ok)
			var connections atomic.Int32
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				connections.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			get := func(path string) *http.Response {
				got, err := client.Get(server.URL + path)
				require.NoError(t, err)
				t.Cleanup(func() { _ = got.Body.Close() })
				return got
			}
			require.Equal(t, "x", read(t, get("/small")))
			unread := get("/large")
			open := get("/large") // a client that reads gets everything
			require.Len(t, read(t, open), large)
			select {
			case err := <-failed:
				require.Error(t, err)
			case <-time.After(time.Minute):
				require.Fail(t, "the response does not end")
			}
			require.Equal(t, "x", read(t, get("/small")))
			_, err := io.Copy(io.Discard, unread.Body)
			require.Error(t, err, "the client can tell that the response is incomplete")
			if http2 {
				require.EqualValues(t, 1, connections.Load(), "the connection continues")
			}
		})
	}
}

func read(t *testing.T, from *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(from.Body)
	require.NoError(t, err)
	return string(text)
}
