package differential

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// defaultPairs is the number of pairs in an ordinary test run; `make differential` uses more.
	defaultPairs      = 200_000
	questionsPerWorld = 50
	// gcPercent applies to both processes, which allocate a lot and retain little.
	gcPercent = 400
)

// answer is Kubernetes' answer to a question: whether the rules may be granted and, as strings of 0 and 1, which of
// the requests the rules allow and which the user may send.
type answer struct {
	Covered         bool
	Wanted, Allowed string
}

// tally counts the answers of each kind, to show that the random pairs are useful.
type tally struct{ Pairs, Covered, Requests, Wanted, Allowed int }

func TestTheEngineAgreesWithKubernetes(t *testing.T) {
	t.Parallel()
	pairs, seed := fromEnvironment(t, "DIFFERENTIAL_PAIRS", defaultPairs), fromEnvironment(t, "DIFFERENTIAL_SEED", 1)
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	in, out := startKubernetes(t)
	asked := make(chan world, 16)
	go func() {
		defer close(asked)
		defer in.Close()
		encoder := json.NewEncoder(in)
		for i := range (pairs + questionsPerWorld - 1) / questionsPerWorld {
			w := newDice(seed, i).world(t)
			if encoder.Encode(w) != nil {
				return // the program has exited; reading its answers reports the error
			}
			asked <- w
		}
	}()
	var sum tally
	decoder := json.NewDecoder(bufio.NewReader(out))
	for w := range asked {
		var answers []answer
		require.NoError(t, decoder.Decode(&answers))
		require.Len(t, answers, len(w.Questions))
		for i, q := range w.Questions {
			if err := sum.compare(q, answers[i]); err != nil {
				asJSON, _ := json.Marshal(q)
				all, _ := json.Marshal(w)
				require.NoError(t, err, "seed %d\nquestion %s\ngranted %+v\nverdict %+v\nworld %s", seed, asJSON, q.granted, q.verdict, all)
			}
		}
	}
	t.Logf("seed %d, no differences: %+v", seed, sum)
	require.GreaterOrEqual(t, sum.Pairs, pairs)
	require.Greater(t, sum.Covered, sum.Pairs/10)
	require.Greater(t, sum.Pairs-sum.Covered, sum.Pairs/10)
	require.Greater(t, sum.Allowed, sum.Requests/10)
	require.Greater(t, sum.Requests-sum.Allowed, sum.Requests/10)
}

// compare compares the engine's answers with those of Kubernetes.
func (sum *tally) compare(q question, want answer) error {
	sum.Pairs++
	covered := q.verdict.Covered()
	if covered {
		sum.Covered++
	}
	if covered != want.Covered {
		return errors.New("the escalation checks differ")
	}
	for i, r := range q.Requests {
		wanted, allowed := want.Wanted[i] == '1', want.Allowed[i] == '1'
		sum.Requests++
		if wanted {
			sum.Wanted++
		}
		if allowed {
			sum.Allowed++
		}
		text, _ := json.Marshal(r)
		switch {
		case allowed != r.allowed:
			return errors.New("the authorizers differ on " + string(text))
		case covered && wanted && !allowed && r.Namespace == q.Namespace:
			return errors.New("covered, but the authorizer refuses what the rules allow: " + string(text))
		}
	}
	return nil
}

// startKubernetes runs controlplane/differential until the test ends.
func startKubernetes(t *testing.T) (io.WriteCloser, io.Reader) {
	t.Helper()
	dir := os.Getenv("REMIT_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	program := filepath.Join(dir, "differential")
	require.FileExists(t, program, "it is built by make bin/differential")
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), fmt.Sprint("GOGC=", gcPercent))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Wait()
		t.Logf("%s used %s of CPU time", program, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	})
	return in, out
}
