package escape

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	shards = flag.Int("shards", 3, "number of processes that share the rows, each with its own cluster; 1 if -run selects rows")
	shard  = flag.Int("shard", 0, "the number of this process, from 1 to -shards; 0 starts all processes")
	turn   = flag.String("turn", "", "file with the number of rows that the processes have begun; if it is empty, this process runs all rows")
)

// part returns the value of the environment variable ESCAPE_ROWS, which selects the rows to run. If it is empty, all
// rows run.
func part() string { return os.Getenv("ESCAPE_ROWS") }

// The values of ESCAPE_ROWS.
const (
	// partSample selects the first row of each group that is not long. `make test` runs these rows.
	partSample = "sample"
	// partRest selects all rows that are not in the sample. `make test-rest` runs these rows.
	partRest = "rest"
	// partList prints all rows and runs none. It exits with a failure, so that the go command does not report a successful
	// run.
	partList = "list"
)

// isSample reports whether this run is limited to the sample, which is small enough for one process.
func isSample() bool { return part() == partSample }

// listRows prints all rows, with an S before those in the sample, and returns the exit code.
func listRows() int {
	for _, group := range groups() {
		for i, r := range group {
			mark := " "
			if i == sampled(group) {
				mark = "S"
			}
			fmt.Printf("%s %s %s\n", mark, r.number, r.title)
		}
	}
	return 1
}

// sampled returns the index of the group's row in the sample, or -1 if there is none.
func sampled(group []row) int { return slices.IndexFunc(group, func(r row) bool { return !r.long }) }

// chosen returns the rows in this process's part of the suite. Long rows come first, so that no process waits for one at
// the end.
func chosen() []row {
	var out []row
	for _, group := range groups() {
		for i, r := range group {
			inSample := i == sampled(group)
			if isSample() && !inSample || part() == partRest && inSample {
				continue
			}
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b row) int {
		switch {
		case a.long == b.long:
			return 0
		case a.long:
			return -1
		}
		return 1
	})
	return everyNth(out, os.Getenv("ESCAPE_SHARD"))
}

// everyNth returns the rows in a part such as "2/4": every fourth row, beginning with the second. If part is empty, it returns
// all rows. These rows run in one process, which reports each of them as a test, so that a failed one can be repeated alone.
func everyNth(rows []row, part string) []row {
	if part == "" {
		return rows
	}
	var first, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &first, &n); err != nil || first < 1 || first > n {
		panic(fmt.Sprintf("ESCAPE_SHARD=%s is not a part such as 2/4", part))
	}
	var out []row
	for i := first - 1; i < len(rows); i += n {
		out = append(out, rows[i])
	}
	return out
}

// turns returns the rows that this process runs. Each row runs in the first process that has time for it.
func turns(t *testing.T) iter.Seq[row] {
	t.Helper()
	if *turn == "" {
		return slices.Values(chosen())
	}
	return func(yield func(row) bool) {
		for all := chosen(); ; {
			i, err := nextTurn(*turn)
			require.NoError(t, err)
			if i >= len(all) || !yield(all[i]) {
				return
			}
		}
	}
}

// nextTurn returns the number that is stored in a file, and increments the stored number.
func nextTurn(path string) (int, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // releases the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	var n int
	if _, err := fmt.Fscan(f, &n); err != nil {
		return 0, err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(n+1)), 0) // never shorter than the old number
	return n, err
}

// shardsToStart returns the number of processes among which the rows are divided, or 0 if this process runs its rows
// itself.
func shardsToStart() int {
	if *shard != 0 || *shards < 2 || isSample() || os.Getenv("ESCAPE_SHARD") != "" || flag.Lookup("test.run").Value.String() != "" {
		return 0
	}
	return *shards
}

// runShards runs the rows in n concurrent processes and returns the exit code: 0 if all of them passed.
func runShards(n int) int {
	turns, err := os.CreateTemp("", "remit-escape-turn-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.Remove(turns.Name()) }()
	_, err = turns.WriteString("0")
	if err = errors.Join(err, turns.Close()); err != nil {
		return fail(err)
	}
	var (
		done   sync.WaitGroup
		lock   sync.Mutex
		failed []error
	)
	for i := range n {
		done.Go(func() {
			if err := runShard(i+1, turns.Name(), &lock); err != nil {
				lock.Lock()
				defer lock.Unlock()
				failed = append(failed, fmt.Errorf("shard %d: %w", i+1, err))
			}
		})
	}
	done.Wait()
	if err := errors.Join(failed...); err != nil {
		return fail(err)
	}
	return 0
}

// runShard runs one process and copies its output line by line, with the shard's number before each line.
func runShard(number int, turns string, lock sync.Locker) error {
	command := exec.Command(os.Args[0], append(os.Args[1:], fmt.Sprintf("-shard=%d", number), "-turn="+turns)...)
	output, input := io.Pipe()
	command.Stdout, command.Stderr = input, input
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- command.Wait()
		_ = input.Close()
	}()
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return <-ended
		}
		lock.Lock()
		fmt.Printf("%d| %s", number, line)
		lock.Unlock()
	}
}
