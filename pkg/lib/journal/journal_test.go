package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
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

// stagger is the time between the beginnings of the work on two suspects.
const stagger = 5 * time.Second

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
	w.clock.Step(time.Hour)
	require.Empty(t, w.process().Suspects(), "it is forgotten")
	j = w.process()
	for range 2 {
		require.Zero(t, j.Begin(item("ns", "a")))
	}
	for range 2 {
		j.Done(item("ns", "a"))
	}
	require.Empty(t, w.process().Suspects())
}

// The turns begin with the first work, which can be long after the start: a program may have to become the leader.
func TestSuspectsBeginOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	for i := range 3 {
		require.Zero(t, j.Begin(item(fmt.Sprint("ns", i), "a")))
		w.clock.Step(time.Second)
	}
	j = w.process()
	w.clock.Step(time.Minute)
	require.Zero(t, j.Begin(item("other", "a")), "others do not wait")
	for i := range 3 {
		require.Equal(t, time.Duration(3-i)*stagger, j.Begin(item(fmt.Sprint("ns", i), "b")), "what began last comes first")
	}
	w.clock.Step(stagger)
	require.Zero(t, j.Wait(item("ns2", "a")))
	require.Zero(t, j.Begin(item("ns2", "a")))

	j = w.process()
	ends := map[string]int{}
	for _, s := range j.Suspects() {
		ends[s.Group] = s.Ends
	}
	require.Equal(t, map[string]int{"ns0": 1, "ns1": 1, "ns2": 2, "other": 1}, ends, "two had not begun")
}

func TestAGroupThatEndsSeveralProcessesIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, pause := range []time.Duration{0, time.Minute, 4 * time.Minute, 16 * time.Minute, time.Hour, time.Hour} {
		j := w.process()
		w.clock.Step(j.Wait(item("ns", "a")))
		name := fmt.Sprint("a", i) // its object gets another name each time
		require.Zero(t, j.Begin(item("ns", name)))
		require.Zero(t, j.Begin(item("ns", "good")))
		j.Done(item("ns", "good"))
		require.Zero(t, j.Begin(item("other", "b")))
		j.Done(item("other", "b"))

		j = w.process()
		require.Len(t, j.Suspects(), 1)
		require.Equal(t, min(i+1, 5), j.Suspects()[0].Ends, "one end is forgotten in each hour")
		require.Equal(t, item("ns", name), j.Suspects()[0].Item)
		require.Equal(t, pause+stagger, j.Wait(item("ns", "another")), "the whole namespace is suspended")
		require.Zero(t, j.Wait(item("other", "b")), "other namespaces are not")
		w.clock.Step(pause / 2)
		require.Equal(t, max(min(pause, 4*time.Minute), pause/2)+stagger, w.process().Wait(item("ns", "a")), "another process ended for another reason")
	}
	require.Len(t, w.process().Suspended(), 1)
	w.clock.Step(4 * time.Hour)
	for range 3 {
		require.Empty(t, w.process().Suspended())
		require.Equal(t, 1, w.process().Suspects()[0].Ends)
	}
	w.clock.Step(time.Hour)
	j := w.process()
	require.Empty(t, j.Suspects())
	require.Zero(t, j.Begin(item("ns", "a")))
	require.Equal(t, 1, w.process().Suspects()[0].Ends, "older ends do not count")
}

// Long work is in progress whenever another namespace ends the program.
func TestTheMostSuspectHasEndedTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	require.Zero(t, j.Begin(item("bad", "a")))
	for range 3 {
		j = w.process()
		w.clock.Step(j.Wait(item("bad", "a")) + j.Wait(item("long", "a")))
		require.Zero(t, j.Begin(item("long", "a")))
		require.Zero(t, j.Begin(item("bad", "a")))
	}
	suspects := w.process().Suspects()
	require.Equal(t, []int{4, 1}, []int{suspects[0].Ends, suspects[1].Ends})
}

// groups returns the suspects by group.
func groups(j *journal.Journal) map[string]journal.Suspect {
	out := map[string]journal.Suspect{}
	for _, s := range j.Suspects() {
		out[s.Group] = s
	}
	return out
}

// endWith ends a process while it works on groups, none of which waits.
func (w world) endWith(groups ...string) {
	w.Helper()
	j := w.process()
	for _, group := range groups {
		w.clock.Step(j.Wait(item(group, "a")))
	}
	for _, group := range groups {
		require.Zero(w, j.Begin(item(group, "a")), group)
	}
}

// At first, a user of two namespaces could end the program whenever a third was being worked on, so that each end counted for that one
// until it was suspended for an hour. The first end at which it had worked alone counts.
func TestSharedEndsSuspendForAFewMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endWith("a", "innocent")
	for i := range 20 {
		w.endWith("innocent", fmt.Sprint("b", i))
		j := w.process()
		require.LessOrEqual(t, j.Wait(item("innocent", "a")), 4*time.Minute+12*stagger)
		require.Zero(t, groups(j)["innocent"].Alone)
	}
	require.Len(t, w.process().Suspended(), 1)

	for i, pause := range []time.Duration{4 * time.Minute, 4 * time.Minute, 4 * time.Minute, 16 * time.Minute, time.Hour} {
		w.endWith("innocent")
		j := w.process()
		require.Equal(t, i+1, groups(j)["innocent"].Alone)
		require.Equal(t, pause+stagger, j.Wait(item("innocent", "a")))
	}
	w.endWith("innocent", "other")
	j := w.process()
	require.Equal(t, 4, groups(j)["innocent"].Alone, "one is forgotten, and this one does not count")
	require.Equal(t, 16*time.Minute+stagger, j.Wait(item("innocent", "a")), "it has been shown to end the program")
}

func TestEndsAloneAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.endWith("ns")
	}
	require.Equal(t, 16*time.Minute+stagger, w.process().Wait(item("ns", "a")))
	require.Equal(t, 4, groups(w.process())["ns"].Alone)
	w.clock.Step(2 * time.Hour)
	require.Equal(t, 2, groups(w.process())["ns"].Alone)
	w.endWith("ns", "other")
	require.Equal(t, 2, groups(w.process())["ns"].Alone)
	require.Equal(t, 4*time.Minute+stagger, w.process().Wait(item("ns", "a")))
}

// A namespace that worked beside others at many ends would otherwise hide the culprit.
func TestWhoEndedTheProgramAloneIsMostSuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 4 {
		w.endWith("innocent", "other")
	}
	w.endWith("bad")
	w.endWith("innocent", "bad")
	now := groups(w.process())
	require.Equal(t, []int{4, 2}, []int{now["innocent"].Ends, now["bad"].Ends})
}

// At first, suspects whose suspensions end at the same time began together, so that each end counted for all of them.
func TestSuspensionsEndOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		j := w.process()
		w.clock.Step(max(j.Wait(item("bad", "a")), j.Wait(item("innocent", "a"))))
		require.Zero(t, j.Begin(item("innocent", "a")))
		w.clock.Step(time.Second)
		require.Zero(t, j.Begin(item("bad", "a")))
	}
	j := w.process()
	require.Equal(t, time.Minute+stagger, j.Wait(item("bad", "a")))
	require.Equal(t, time.Minute+2*stagger, j.Wait(item("innocent", "a")))
	w.clock.Step(time.Minute + stagger)
	require.Zero(t, j.Begin(item("bad", "a")))
	j = w.process()
	require.Equal(t, 3, j.Suspects()[0].Ends)
	require.Equal(t, 2, j.Suspects()[1].Ends)
	require.Equal(t, time.Minute+2*stagger, j.Wait(item("innocent", "a")), "it is counted from the first work of each process")
}

// The kubelet starts a program that has ended several times only after five minutes. At first, the suspensions of all but the last group
// were over by then, so that two of them could end the program soon after each start.
func TestGroupsThatEndTheProgramInTurnLeaveItTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := []string{"a", "b", "c"}
	for range 2 {
		for _, group := range bad {
			w.endWith(group, "other"+group)
		}
	}
	for i := range 6 {
		w.clock.Step(5 * time.Minute)
		j := w.process()
		began := w.clock.Now()
		next := slices.MinFunc(bad, func(x, y string) int { return int(j.Wait(item(x, "a")) - j.Wait(item(y, "a"))) })
		require.Zero(t, j.Begin(item(fmt.Sprint("long", i), "a")))
		w.clock.Step(j.Wait(item(next, "a")))
		require.Zero(t, j.Begin(item(next, "a")))
		require.GreaterOrEqual(t, w.clock.Since(began), time.Minute)
	}
	for _, group := range bad {
		require.Equal(t, 4*time.Minute, groups(w.process())[group].Until.Sub(w.clock.Now()))
	}
}

// A program that is stopped did not end because of its work.
func TestWorkThatIsStoppedIsNotSuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.process()
	require.Zero(t, j.Begin(item("bad", "a")))
	j = w.process()
	require.Zero(t, j.Begin(item("ns", "a")))
	require.NoError(t, j.Close())
	require.Len(t, w.process().Suspects(), 1, "what was suspect before")
	require.NoError(t, (*journal.Journal)(nil).Close())
}

func TestTrustedGroupsAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, err := journal.Open(w.path, w.clock, "global")
	require.NoError(t, err)
	require.Zero(t, j.Begin(item("global", "a")))
	require.Zero(t, j.Begin(item("ns", "a")))
	suspects := w.process().Suspects()
	require.Len(t, suspects, 1)
	require.Equal(t, "ns", suspects[0].Group)
}

func TestWorkWaitsUntilItCanBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		process := func() *journal.Journal {
			j, err := journal.Open(path, clock.RealClock{})
			require.NoError(t, err)
			return j
		}
		_, err := process().Work(t.Context(), item("ns", "a"))
		require.NoError(t, err)
		j, began := process(), time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, os.ErrDeadlineExceeded)
		defer cancel()
		_, err = j.Work(ctx, item("ns", "a"))
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, time.Second, time.Since(began))
		done, err := j.Work(t.Context(), item("ns", "a"))
		require.NoError(t, err)
		require.Equal(t, stagger, time.Since(began))
		_, err = j.Work(t.Context(), item("ns", "a"))
		require.NoError(t, err)
		done()
		done()
		require.Equal(t, 2, process().Suspects()[0].Ends, "the second one is not finished")
	})
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
	require.Len(t, j.Suspects(), 128)
	require.Zero(t, j.Begin(item("new", "a")), "there are records for work")
	for _, s := range j.Suspects() {
		require.LessOrEqual(t, j.Wait(s.Item), time.Minute)
	}
	require.Len(t, w.process().Suspects(), 128)
	require.Equal(t, 1, func() (n int) {
		for _, s := range w.process().Suspects() {
			if s.Group == "new" {
				n++
			}
		}
		return n
	}())
}

// On a full disk, a file that was truncated could not be written again.
func TestTheFileKeepsItsSpace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{"", strings.Repeat("x", 1<<20)} {
		require.NoError(t, os.WriteFile(w.path, []byte(text), 0o600))
		w.process()
		records, err := os.ReadFile(w.path)
		require.NoError(t, err)
		require.True(t, string(records) == strings.Repeat("\x00", 256<<10), "it has a free slot for each record")
	}
	w.endWith("ns")
	require.Len(t, w.process().Suspects(), 1)
	require.Len(t, w.process().Suspects(), 1)
}

func TestAClockThatIsSetBackProlongsNoSuspension(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.endWith("ns")
	}
	j := w.process()
	require.Equal(t, 4*time.Minute+stagger, j.Wait(item("ns", "a")))
	w.clock.SetTime(w.clock.Now().Add(-24 * time.Hour))
	require.Equal(t, 4*time.Minute+stagger, j.Wait(item("ns", "a")))

	w.endWith("other")
	j = w.process()
	w.clock.SetTime(w.clock.Now().Add(-24 * time.Hour)) // before the process becomes the leader
	require.LessOrEqual(t, j.Wait(item("other", "a")), time.Hour+12*stagger)
}

func record(text string) string { return text + strings.Repeat("\x00", 1<<10-len(text)) }

func TestAnUnreadableFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		"", "x", strings.Repeat("x", 1<<20), strings.Repeat("working 1 1 a b ", 64), strings.Repeat("\x00", 1<<18),
		record("working x 0 1 a b "), record("working 0 x 1 a b "), record("working 0 0 x a b "), record("working 0 0 1 a "),
		record("other 1 1 1000000000000 a b "), record("suspect 0 0 1000000000000 a b "), record("suspect 1 1 2000000000000 a b "),
		record("suspect 1 2 1000000000000 a b "), record("suspect 2 -1 1000000000000 a b "), record("suspect 1000 0 1000000000000 a b "),
		record("working 1 0 1 a b "), record("suspect 3 1000000000000 a b "), // without the number of ends alone, from an earlier version
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
