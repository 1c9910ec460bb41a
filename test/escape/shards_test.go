package escape

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
)

var (
	shards = flag.Int("shards", 2, "number of processes that share the rows, each with its own cluster; 1 if -run selects rows")
	shard  = flag.Int("shard", 0, "the shard that this process runs, from 1 to -shards; 0 starts all of them")
)

// part is the environment variable ESCAPE_ROWS, which selects the rows to run. The default is all of them.
func part() string { return os.Getenv("ESCAPE_ROWS") }

// The values of ESCAPE_ROWS.
const (
	// partSample is the first row of every group that has another than long ones. `make test` runs it.
	partSample = "sample"
	// partRest is all other rows, which `make test-rest` runs.
	partRest = "rest"
	// partList prints all rows and runs none: that is a failure, so that the go command does not take it for a run.
	partList = "list"
)

// isSample reports whether only the sample runs. It is small enough for one process.
func isSample() bool { return part() == partSample }

// listRows prints all rows, those of the sample with an S in front.
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

// sampled returns the index of the group's row that is in the sample, or -1.
func sampled(group []row) int { return slices.IndexFunc(group, func(r row) bool { return !r.long }) }

// chosen returns the rows that this process runs: those of its part of the suite, and of its shard.
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
	return rowsOfShard(out)
}

// shardsToStart returns how many processes the rows are divided between, or 0 if this process runs its rows itself.
func shardsToStart() int {
	if *shard != 0 || *shards < 2 || isSample() || flag.Lookup("test.run").Value.String() != "" {
		return 0
	}
	return *shards
}

// rowsOfShard returns the rows that this process runs: neighbors are often of one kind, so each shard gets some of every kind.
func rowsOfShard(all []row) []row {
	if *shard == 0 {
		return all
	}
	var out []row
	for i := *shard - 1; i < len(all); i += *shards {
		out = append(out, all[i])
	}
	return out
}

// runShards runs the rows in n processes at a time and returns the exit code of the whole: 0 if all of them passed.
func runShards(n int) int {
	var (
		done   sync.WaitGroup
		lock   sync.Mutex
		failed []error
	)
	for i := range n {
		done.Go(func() {
			if err := runShard(i+1, &lock); err != nil {
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

// runShard runs one shard and copies its output line by line, each with the number of the shard.
func runShard(number int, lock sync.Locker) error {
	command := exec.Command(os.Args[0], append(os.Args[1:], fmt.Sprintf("-shard=%d", number))...)
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
