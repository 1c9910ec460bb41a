package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/lib/journal"
)

// world is the file that processes use one after the other.
type world struct {
	*testing.T
	path  string
	clock *clocktesting.FakeClock
}

func newWorld(t *testing.T) world {
	return world{t, filepath.Join(t.TempDir(), "journal"), clocktesting.NewFakeClock(time.Unix(1e9, 0))}
}

// process begins a process; the one before has ended without closing the file.
func (w world) process() *journal.Journal {
	w.Helper()
	j, err := journal.Open(w.path, w.clock)
	require.NoError(w, err)
	w.Cleanup(func() { _ = j.Close() })
	return j
}

func item(group, name string) journal.Item {
	return journal.Item{Group: group, Name: "csv/" + group + "/" + name}
}

func TestFinishedWorkIsNotSuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	for _, name := range []string{"a", "b", "a"} {
		require.Zero(t, j.Begin(item("ns", name)))
		j.Done(item("ns", name))
	}
	j.Done(item("ns", "never begun"))
	require.Empty(t, w.process().Suspects())
}

func TestAnItemCanHaveSeveralWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	require.Zero(t, j.Begin(item("ns", "a")))
	require.Zero(t, j.Begin(item("ns", "a")))
	j.Done(item("ns", "a"))
	require.Len(t, w.process().Suspects(), 1)
	w.clock.Step(time.Minute)
	j = w.process()
	require.Equal(t, time.Second, j.Wait(item("ns", "a")))
	w.clock.Step(time.Second)
	require.Zero(t, j.Wait(item("ns", "a")))
	require.Zero(t, j.Begin(item("ns", "a")))
	require.Zero(t, j.Begin(item("ns", "a")))
	j.Done(item("ns", "a"))
	j.Done(item("ns", "a"))
	require.Empty(t, w.process().Suspects())
}

func TestSuspectsBeginOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	for i := range 3 {
		require.Zero(t, j.Begin(item(fmt.Sprint("ns", i), "a")))
	}
	j = w.process()
	require.Zero(t, j.Begin(item("ns0", "b")), "other items of the namespace do not wait")
	waits := map[time.Duration]bool{}
	for i := range 3 {
		waits[j.Begin(item(fmt.Sprint("ns", i), "a"))] = true
	}
	require.Equal(t, map[time.Duration]bool{time.Second: true, 2 * time.Second: true, 3 * time.Second: true}, waits)
	w.clock.Step(3 * time.Second)
	for i := range 3 {
		require.Zero(t, j.Begin(item(fmt.Sprint("ns", i), "a")))
		j.Done(item(fmt.Sprint("ns", i), "a"))
	}
	require.Empty(t, j.Suspects())
	require.Len(t, w.process().Suspects(), 1, "the one that was not finished")
}

func TestAnItemThatEndsSeveralProcessesSuspendsItsNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, pause := range []time.Duration{time.Second, time.Minute, 4 * time.Minute, 16 * time.Minute, time.Hour, time.Hour} {
		j := w.process()
		require.Len(t, j.Suspects(), min(i, 1))
		w.clock.Step(time.Hour)
		require.Zero(t, j.Begin(item("ns", "a")))
		require.Zero(t, j.Begin(item("other", "b")))
		j.Done(item("other", "b"))

		j = w.process()
		require.Equal(t, i+1, j.Suspects()[0].Ends)
		require.Equal(t, pause, j.Begin(item("ns", "a")))
		if i > 0 {
			require.Equal(t, pause, j.Begin(item("ns", "b")), "the namespace is suspended")
			w.clock.Step(pause / 2)
			require.Equal(t, pause/2, w.process().Begin(item("ns", "b")), "another process ended for another reason")
		}
		require.Zero(t, j.Begin(item("other", "b")), "other namespaces are not")
		j.Done(item("other", "b"))
	}
	j := w.process()
	w.clock.Step(time.Hour)
	require.Zero(t, j.Begin(item("ns", "a")))
	j.Done(item("ns", "a"))
	require.Zero(t, w.process().Begin(item("ns", "b")), "it was finished")
}

func TestSuspectsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.process().Begin(item("ns", "a"))
	require.Len(t, w.process().Suspects(), 1)
	w.clock.Step(25 * time.Hour)
	require.Empty(t, w.process().Suspects())
}

func TestManyItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	long := strings.Repeat("n", 253)
	for i := range 300 {
		require.Zero(t, j.Begin(item(fmt.Sprint("ns", i), long)))
	}
	require.Zero(t, j.Begin(item("ns", strings.Repeat("n", 2000))))
	info, err := os.Stat(w.path)
	require.NoError(t, err)
	require.EqualValues(t, 256<<10, info.Size())
	j = w.process()
	require.Len(t, j.Suspects(), 256)
	w.clock.Step(10 * time.Minute)
	for i := range 300 {
		require.Zero(t, j.Begin(item(fmt.Sprint("ns", i), long)))
		j.Done(item(fmt.Sprint("ns", i), long))
	}
	require.Empty(t, w.process().Suspects())
}

func record(text string) string { return text + strings.Repeat("\x00", 1<<10-len(text)) }

func TestAnUnreadableFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		"", "x", strings.Repeat("x", 1<<20), strings.Repeat("working 1 1 a b ", 64), strings.Repeat("\x00", 1<<18),
		record("working x 1 a b "), record("working 1 x a b "), record("working 1 1 a "), record("other 1 1000000000 a b "),
		record("suspect 0 1000000000 a b "), record("suspect 1 2000000000 a b "), record("working 1000000 1 a b "),
	} {
		require.NoError(t, os.WriteFile(w.path, []byte(text), 0o600))
		j := w.process()
		require.Empty(t, j.Suspects())
		require.Zero(t, j.Begin(item("ns", "a")))
		j.Done(item("ns", "a"))
	}
	_, err := journal.Open(filepath.Join(w.path, "x"), w.clock)
	require.ErrorContains(t, err, "open journal")
	require.Zero(t, (*journal.Journal)(nil).Begin(item("ns", "a")))
	(*journal.Journal)(nil).Done(item("ns", "a"))
	require.Empty(t, (*journal.Journal)(nil).Suspects())
}
