// Package journal records what a program is working on in a file that outlives the process. If the process ends without finishing
// that work, for example because an object of a user needs more memory than the program may use, the next process knows which
// objects it was working on. Otherwise, it would begin with the same objects again, and no other user's would ever have their turn.
//
// What was being worked on when a process ended becomes suspect. The next process begins with suspects one after the other, so that
// another end can be attributed to one of them. A suspect that ends a process again suspends its whole group (namespace), for one
// minute at first, and for longer each time. Work that is finished is no longer suspect (docs/adr/0102).
package journal

import (
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
	// slots is the number of items that the file records. A program has fewer workers.
	slots = 256
	// slotSize is the size of a record in bytes: two names of at most 253 bytes each, and the name of a controller.
	slotSize = 1 << 10
	// stagger is the time between the first attempts to continue with suspects.
	stagger = time.Second
	// firstPause is how long a group is suspended after the second end; the time is multiplied by pauseFactor each time, up to lastPause.
	firstPause  = time.Minute
	pauseFactor = 4
	lastPause   = time.Hour
	// memory is how long an item remains suspect after the last end that it was part of.
	memory = 24 * time.Hour
)

// Item identifies what is being worked on. Both strings consist of names of the API, and contain no spaces.
type Item struct {
	// Group is the namespace, or the name of a cluster-scoped object. All items of a group are suspended together.
	Group string
	// Name is unique in the program: the name of the controller, a slash, and that of the object.
	Name string
}

// Suspect is an item that was being worked on when a process ended.
type Suspect struct {
	Item

	// Ends is the number of processes that ended.
	Ends int
	// Until is when the work on the item continues. If Ends is greater than one, it applies to the whole group.
	Until time.Time
	// last is when the last of the processes ended, as far as known.
	last time.Time
	slot int
}

// work is an item that is being worked on, by a number of workers.
type work struct{ slot, workers int }

// Journal is the record of one process. A nil Journal records nothing. It is safe for concurrent use.
type Journal struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	file     *os.File
	free     []int
	working  map[Item]*work
	suspects map[Item]*Suspect
}

// Open reads what an earlier process left in the file, and begins to record in it. The file is created if it does not exist. No other
// process may use it. Records that cannot be read are dropped.
func Open(path string, c clock.PassiveClock) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, slots*slotSize))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read journal: %w", err), file.Close())
	}
	j := &Journal{clock: c, file: file, working: map[Item]*work{}, suspects: map[Item]*Suspect{}}
	j.learn(string(text))
	for slot := slots - 1; slot >= 0; slot-- {
		j.free = append(j.free, slot)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("clear journal: %w", err), file.Close())
	}
	for _, s := range j.suspects {
		s.slot = j.take()
		j.write(s.slot, record{state: suspect, ends: s.Ends, last: s.last, item: s.Item})
	}
	return j, nil
}

// learn makes suspects of what an earlier process left.
func (j *Journal) learn(text string) {
	now := j.clock.Now()
	first := 0 // the number of suspects with one end
	for at := 0; at+slotSize <= len(text); at += slotSize {
		r, ok := parse(text[at : at+slotSize])
		if !ok {
			continue
		}
		s := &Suspect{Item: r.item, Ends: r.ends, last: r.last}
		if r.state == working {
			s.Ends, s.last = s.Ends+1, now
		}
		if now.Sub(s.last) > memory || s.last.After(now) {
			continue
		}
		s.Until = s.last.Add(pause(s.Ends))
		if s.Ends == 1 {
			first++
			s.Until = now.Add(time.Duration(first) * stagger)
		}
		j.suspects[s.Item] = s
	}
}

// pause returns how long a group is suspended.
func pause(ends int) time.Duration {
	d := firstPause
	for range ends - 2 {
		d = min(d*pauseFactor, lastPause)
	}
	return d
}

// Begin records that the work on an item begins. It returns how long the item has to wait, or 0 if the work can begin; then, Done must
// follow.
func (j *Journal) Begin(item Item) (wait time.Duration) {
	if j == nil {
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
	r := record{state: working, item: item}
	var slot int
	if s := j.suspects[item]; s != nil {
		r.ends, r.last, slot = s.Ends, s.last, s.slot
	} else if slot = j.take(); slot < 0 {
		return 0
	}
	j.working[item] = &work{slot: slot, workers: 1}
	j.write(slot, r)
	return 0
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

// wait returns how long an item has to wait because it, or another item of its group, is suspect.
func (j *Journal) wait(item Item) (wait time.Duration) {
	for _, s := range j.suspects {
		if s.Item == item || s.Ends > 1 && s.Group == item.Group {
			wait = max(wait, s.Until.Sub(j.clock.Now()))
		}
	}
	return wait
}

// Done records that the work on an item is finished, whether it succeeded or not. The item is no longer suspect.
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
	delete(j.suspects, item)
	j.free = append(j.free, w.slot)
	j.write(w.slot, record{})
}

// Suspects returns the suspects, ordered by name.
func (j *Journal) Suspects() (out []Suspect) {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.suspects {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Suspect) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Close closes the file. Work that is not finished becomes suspect.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
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
	working state = "working"
	suspect state = "suspect"
)

// record is the content of a slot: fields that are separated by spaces. The empty record is a free slot.
type record struct {
	state state
	ends  int
	last  time.Time
	item  Item
}

func (r record) bytes() []byte {
	out := make([]byte, slotSize)
	if r.state != "" {
		text := fmt.Sprintf("%s %d %d %s %s ", r.state, r.ends, r.last.Unix(), r.item.Group, r.item.Name)
		if len(text) <= slotSize {
			copy(out, text)
		}
	}
	return out
}

func parse(text string) (r record, ok bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 6 { // the last one consists of zeros
		return r, false
	}
	ends, err := strconv.Atoi(fields[1])
	last, err2 := strconv.ParseInt(fields[2], 10, 64)
	r = record{state: state(fields[0]), ends: ends, last: time.Unix(last, 0), item: Item{Group: fields[3], Name: fields[4]}}
	isKnown := r.state == working && ends >= 0 || r.state == suspect && ends > 0
	return r, err == nil && err2 == nil && isKnown && ends < 1000
}
