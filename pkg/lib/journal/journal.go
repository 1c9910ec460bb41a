// Package journal records what a program is working on in a file that outlives the process. If the process ends without finishing
// that work, for example because an object of a user needs more memory than the program may use, the next process knows whose
// objects it was working on. Otherwise, it would begin with the same objects again, and no other user's would ever have their turn.
//
// A group (namespace) on which a process was working when it ended becomes suspect. The next process begins with suspects one after the
// other, so that another end can be attributed to one of them. A suspect that ends a process again is suspended, for one minute at
// first, and for longer each time; for more than a few minutes only if no other group was being worked on at these ends. One end is
// forgotten in each hour (docs/adr/0102).
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// slots is the number of records in the file, of which at most maxSuspects are for suspects. A program has fewer workers than the rest.
	slots       = 256
	maxSuspects = slots / 2
	// slotSize is the size of a record in bytes: two names of at most 253 bytes each, and the name of a controller.
	slotSize = 1 << 10
	// stagger is the time between the earliest beginnings of the work on two suspects.
	stagger = 5 * time.Second
	// firstPause is how long a group is suspended after the second end; the time is multiplied by pauseFactor each time, up to lastPause.
	firstPause  = time.Minute
	pauseFactor = 4
	lastPause   = time.Hour
	// sharedPause is the longest time for which a group is suspended because of ends at which others were being worked on, too. Such
	// an end does not tell whose work was the reason, and whoever ends the program can choose when it happens.
	sharedPause = 4 * time.Minute
	// maxTurn bounds the time for which the work on suspects begins one after the other.
	maxTurn = 12
	// decay is the time in which one of the ends of a group is forgotten. Work that is finished proves nothing: a user can have other
	// objects in the same namespace, and create the one that ends the program again with another name.
	decay = time.Hour
	// maxEnds is more than the number of ends of any suspect.
	maxEnds = 1000
)

// Item identifies what is being worked on. Both strings consist of names of the API, and contain no spaces.
type Item struct {
	// Group is the namespace or, for a cluster-scoped object that belongs to none, a slash and its name. Without a group, the item is not
	// recorded.
	Group string
	// Name is unique in the program: the name of the controller, a slash, and that of the object.
	Name string
}

// Suspect is a group on which a process was working when it ended.
type Suspect struct {
	// Item is what the process was working on, or one of several items of the group.
	Item

	// Ends is the number of processes that ended, without those that are forgotten, and ended is their number at the last end, which the
	// record contains.
	Ends, ended int
	// Alone is the number of those at which the process worked on no other group, and endedAlone is their number at the last end.
	Alone, endedAlone int
	// last is when the last of them ended, as far as known, and began is when it had begun to work on the item.
	last, began time.Time
	// turn is the position among the suspects, which begin one after the other.
	turn int
	// Until is when the suspension of the group ends.
	Until time.Time
}

// Journal is the record of one process. A nil Journal records nothing. It is safe for concurrent use.
type Journal struct {
	clock clock.PassiveClock
	// trusted are the groups on which the work is not recorded.
	trusted []string

	mu   sync.Mutex
	file *os.File
	free []int
	// begun is when the process began to work, which can be long after it started: it may have to become the leader.
	begun   time.Time
	working map[Item]*work
	// suspects contains the suspects by group.
	suspects map[string]*Suspect
}

// work is an item that is being worked on, by a number of workers.
type work struct{ slot, workers int }

// Open reads what an earlier process left in the file, and begins to record in it. The file is created if it does not exist. No other
// process may use it. Records that cannot be read are dropped. The groups that are trusted never wait: administrators choose what is in
// them, and others need it.
func Open(path string, c clock.PassiveClock, trusted ...string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, slots*slotSize))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read journal: %w", err), file.Close())
	}
	j := &Journal{clock: c, trusted: trusted, file: file, working: map[Item]*work{}, suspects: map[string]*Suspect{}}
	j.learn(string(text))
	for slot := slots - 1; slot >= 0; slot-- {
		j.free = append(j.free, slot)
	}
	if err := j.rewrite(); err != nil {
		return nil, errors.Join(fmt.Errorf("write journal: %w", err), file.Close())
	}
	return j, nil
}

// rewrite replaces the content of the file with records of the suspects and free slots. The file keeps its space on the disk, so that its
// records can be written when the disk is full later.
func (j *Journal) rewrite() error {
	content := make([]byte, slots*slotSize)
	for _, s := range j.suspects {
		copy(content[j.take()*slotSize:], record{state: suspect, ends: s.ended, alone: s.endedAlone, at: s.last, item: s.Item}.bytes())
	}
	if _, err := j.file.WriteAt(content, 0); err != nil {
		return err
	}
	return j.file.Truncate(int64(len(content))) // it can be longer only if something else wrote it
}

// learn makes suspects of what an earlier process left.
func (j *Journal) learn(text string) {
	now := j.clock.Now()
	groups, most := 0, 0 // the number of groups that were being worked on, and how suspect the most suspect of them was
	for _, r := range j.left(text) {
		s := j.suspects[r.item.Group]
		if r.state == suspect {
			if before := r.suspect(now); s == nil && before.Ends > 0 {
				j.suspects[r.item.Group] = before
			}
			continue
		}
		if s == nil {
			s = &Suspect{}
			j.suspects[r.item.Group] = s
		}
		if s.began.IsZero() {
			groups++
		}
		if most = max(most, s.weight()); s.began.IsZero() || r.at.After(s.began) {
			s.Item, s.began = r.item, r.at
		}
	}
	for _, s := range j.suspects {
		if !s.began.IsZero() && s.weight() == most { // others worked beside it, so that the end proves nothing about them
			s.count(now, groups == 1)
		} else if s.Ends == 0 {
			s.count(now, false)
		}
	}
	j.order()
}

// suspect returns the suspect of a record, without the ends that are forgotten.
func (r record) suspect(now time.Time) *Suspect {
	forgotten := int(now.Sub(r.at) / decay)
	return &Suspect{Item: r.item, Ends: r.ends - forgotten, ended: r.ends, Alone: max(0, r.alone-forgotten), endedAlone: r.alone, last: r.at}
}

// weight orders groups by how suspect they are: by the ends at which they were alone, and then by all.
func (s *Suspect) weight() int { return s.Alone*maxEnds + s.Ends }

// count counts an end.
func (s *Suspect) count(now time.Time, isAlone bool) {
	s.Ends, s.last = min(s.Ends+1, maxEnds-1), now
	if isAlone {
		s.Alone = min(s.Alone+1, s.Ends)
	}
	s.ended, s.endedAlone = s.Ends, s.Alone
}

// left returns the records that an earlier process left: suspects before work, and the latest first.
func (j *Journal) left(text string) (out []record) {
	now := j.clock.Now()
	for at := 0; at+slotSize <= len(text); at += slotSize {
		if r, ok := parse(text[at : at+slotSize]); ok && !r.at.After(now) && !slices.Contains(j.trusted, r.item.Group) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b record) int { return cmp.Or(cmp.Compare(a.state, b.state), b.at.Compare(a.at)) })
	return out
}

// order decides in which order the work on the suspects begins: first on what had begun last, because what ends a program usually does so
// soon.
func (j *Journal) order() {
	var all []*Suspect
	for _, s := range j.suspects {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Suspect) int {
		return cmp.Or(b.last.Compare(a.last), b.began.Compare(a.began), strings.Compare(a.Group, b.Group))
	})
	clear(j.suspects)
	for i, s := range all[:min(len(all), maxSuspects)] {
		s.turn = min(i+1, maxTurn)
		j.suspects[s.Group] = s
	}
}

// pause returns how long a group is suspended after a number of ends.
func pause(ends int) time.Duration {
	if ends < 2 {
		return 0
	}
	d := firstPause
	for range ends - 2 {
		d = min(d*pauseFactor, lastPause)
	}
	return d
}

// suspension returns how long the group is suspended in a process that begins to work at a time. The longest suspensions begin with the
// end. One because of ends that others share begins with the work of each process: a program that ended is often started again only after
// sharedPause, and two groups could otherwise end it in turn, soon after each start.
func (s *Suspect) suspension(begun time.Time) time.Duration {
	alone := s.last.Add(pause(s.endedAlone)).Sub(begun)
	return min(max(min(pause(s.Ends), sharedPause), alone), lastPause)
}

// Begin records that the work on an item begins. It returns how long the item has to wait, or 0 if the work can begin; then, Done must
// follow.
func (j *Journal) Begin(item Item) (wait time.Duration) {
	if j == nil || item.Group == "" || slices.Contains(j.trusted, item.Group) {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if wait = j.wait(item); wait > 0 {
		return wait
	}
	if w := j.working[item]; w != nil {
		w.workers++
		return 0
	}
	slot := j.take()
	if slot < 0 {
		return 0
	}
	j.working[item] = &work{slot: slot, workers: 1}
	j.write(slot, record{state: working, at: j.clock.Now(), item: item})
	return 0
}

// Work waits until the work on an item can begin, and records it. The caller must call done, which may be called several times. The
// error is the cause of the end of ctx.
func (j *Journal) Work(ctx context.Context, item Item) (done func(), err error) {
	for wait := j.Begin(item); wait > 0; wait = j.Begin(item) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() { j.Done(item) }), nil
}

// Wait returns how long an item has to wait, or 0 if the work can begin.
func (j *Journal) Wait(item Item) time.Duration {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wait(item)
}

// wait returns how long an item has to wait because its group is suspect. Suspensions that end at the same time, or have ended, end one
// after the other. Waits are counted from the first work of the process, because the clock of the machine can be set back, and the time of a
// record is only that of this clock.
func (j *Journal) wait(item Item) time.Duration {
	now := j.clock.Now()
	if j.begun.IsZero() {
		j.begun = now
	}
	s := j.suspects[item.Group]
	if s == nil {
		return 0
	}
	delay := s.suspension(j.begun) + time.Duration(s.turn)*stagger
	return max(0, min(delay, j.begun.Add(delay).Sub(now)))
}

// Done records that the work on an item is finished, whether it succeeded or not.
func (j *Journal) Done(item Item) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	w := j.working[item]
	if w == nil {
		return
	}
	if w.workers--; w.workers > 0 {
		return
	}
	delete(j.working, item)
	j.free = append(j.free, w.slot)
	j.write(w.slot, record{})
}

// Suspended returns the suspects that are suspended, ordered by group.
func (j *Journal) Suspended() []Suspect {
	if j == nil {
		return nil
	}
	return slices.DeleteFunc(j.Suspects(), func(s Suspect) bool { return !s.Until.After(j.clock.Now()) })
}

// Suspects returns the suspects, ordered by group.
func (j *Journal) Suspects() (out []Suspect) {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	begun := j.begun
	if begun.IsZero() {
		begun = j.clock.Now()
	}
	for _, s := range j.suspects {
		s := *s
		s.Until = begun.Add(s.suspension(begun))
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Suspect) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// Close must be called when the process ends for a reason that is not its work, such as a signal. Work that is not finished does not become
// suspect.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.working {
		j.write(w.slot, record{})
	}
	return j.file.Close()
}

// take returns a free slot, or -1.
func (j *Journal) take() int {
	if len(j.free) == 0 {
		return -1
	}
	slot := j.free[len(j.free)-1]
	j.free = j.free[:len(j.free)-1]
	return slot
}

// write writes a record. An error is ignored, as without a journal: the work is more important than its record.
func (j *Journal) write(slot int, r record) {
	_, _ = j.file.WriteAt(r.bytes(), int64(slot)*slotSize)
}

// state is the state of a slot.
type state string

const (
	suspect state = "suspect"
	working state = "working"
)

// record is the content of a slot: fields that are separated by spaces. The empty record is a free slot.
type record struct {
	state state
	// ends is the number of ends of a suspect, and alone that of the ends at which the process worked on no other group.
	ends, alone int
	// at is the time of the last end of a suspect, or the beginning of the work.
	at   time.Time
	item Item
}

func (r record) bytes() []byte {
	out := make([]byte, slotSize)
	if r.state != "" {
		text := fmt.Sprintf("%s %d %d %d %s %s ", r.state, r.ends, r.alone, r.at.UnixMilli(), r.item.Group, r.item.Name)
		if len(text) <= slotSize {
			copy(out, text)
		}
	}
	return out
}

func parse(text string) (r record, ok bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 7 { // the last one consists of zeros
		return r, false
	}
	ends, err := strconv.Atoi(fields[1])
	alone, err2 := strconv.Atoi(fields[2])
	at, err3 := strconv.ParseInt(fields[3], 10, 64)
	r = record{state: state(fields[0]), ends: ends, alone: alone, at: time.UnixMilli(at), item: Item{Group: fields[4], Name: fields[5]}}
	isKnown := r.state == working && ends == 0 || r.state == suspect && ends > 0
	return r, errors.Join(err, err2, err3) == nil && isKnown && alone >= 0 && alone <= ends && ends < maxEnds
}
