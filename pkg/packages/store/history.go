package store

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// maxHistory is the minimum number of changes that are kept for watches. When there are twice as many, the older half of the
// changes in the namespace with the most changes is dropped, so that changes in one namespace do not end the watches of others. A
// client whose watch is further behind must list again.
const maxHistory = 20_000

// maxHistoryBytes bounds the estimated memory of the changes that are kept, most of which is for labels that packages had before.
// Beyond it, the older half of the changes in the namespace with the most memory is dropped. changeOverhead is the estimated memory of a
// change without its name and labels.
const maxHistoryBytes, changeOverhead = 16 << 20, 120

// maxChanges bounds the changes that a watch gets at a time, because it keeps them until its client has read the events of all of them.
const maxChanges = 100

// maxChangesBytes bounds the memory of these changes, unless one takes more: the labels would stay in memory although they were dropped here.
const maxChangesBytes = 32 << 10

// ErrExpired means that some changes after a version are no longer available.
var ErrExpired = errors.New("the version is too old")

// Change describes a change to one package of a catalog.
type Change struct {
	Version uint64
	Catalog types.NamespacedName
	Package string
	// Before are the labels before the change, unless the package is new.
	Before Labels
	IsNew  bool
	// Deleted means that the package was removed.
	Deleted bool

	// bytes is the estimated memory of the change.
	bytes int64
}

// history contains the latest changes. The Store's lock protects it.
type history struct {
	begun, last uint64
	// lists contains the changes by the namespace of the catalog, n is their number, and bytes is their memory.
	lists map[string]*changes
	n     int
	bytes int64
	// changed is closed at the next change.
	changed chan struct{}
}

// changes contains all changes to the catalogs of a namespace after the version "since".
type changes struct {
	since uint64
	all   []Change
	bytes int64
}

func (h *history) begin(version uint64) {
	h.begun, h.last, h.lists, h.changed = version, version, map[string]*changes{}, make(chan struct{})
}

func (h *history) add(c Change) {
	list := h.lists[c.Catalog.Namespace]
	if list == nil {
		list = &changes{since: h.begun}
		h.lists[c.Catalog.Namespace] = list
	}
	c.bytes = list.size(c)
	list.all = append(list.all, c)
	list.bytes += c.bytes
	h.bytes += c.bytes
	if h.n++; h.n >= 2*maxHistory {
		h.drop(func(c *changes) int64 { return int64(len(c.all)) })
	}
	for h.bytes > maxHistoryBytes {
		h.drop(func(c *changes) int64 { return c.bytes })
	}
}

// size estimates the memory of a change. The labels of a CatalogSource count once for all packages that change together. Labels that a
// package still has count as well, because it may lose them next.
func (c *changes) size(next Change) int64 {
	size := changeOverhead + int64(len(next.Package)) + sizeOf(next.Before.own)
	if n := len(c.all); n == 0 || !isSame(c.all[n-1].Before.shared, next.Before.shared) {
		size += sizeOf(next.Before.shared)
	}
	return size
}

// isSame reports whether two maps are the same one in memory.
func isSame(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}

// drop removes the older half of the changes in the namespace with the most, according to size.
func (h *history) drop(size func(*changes) int64) {
	var most *changes
	for _, list := range h.lists {
		if most == nil || size(list) > size(most) {
			most = list
		}
	}
	over := (len(most.all) + 1) / 2
	most.since = most.all[over-1].Version
	for _, c := range most.all[:over] {
		most.bytes -= c.bytes
		h.bytes -= c.bytes
	}
	most.all = append([]Change(nil), most.all[over:]...)
	h.n -= over
}

// after returns the first maxChanges changes after a version, or false if some of them have been dropped.
func (c *changes) after(version uint64) ([]Change, bool) {
	first, _ := slices.BinarySearchFunc(c.all, version+1, func(c Change, version uint64) int { return cmp.Compare(c.Version, version) })
	return c.all[first:min(len(c.all), first+maxChanges)], version >= c.since
}

// wake announces that all changes up to a version are in the list.
func (h *history) wake(version uint64) {
	h.last = version
	close(h.changed)
	h.changed = make(chan struct{})
}

// Changes waits until there are changes after a version, and returns the first maxChanges of those of the catalogs that the view
// includes, with the version up to which they are complete. The error is ErrExpired if some of these changes have been dropped.
func (s *Store) Changes(ctx context.Context, v View, after uint64) ([]Change, uint64, error) {
	for {
		found, until, changed, err := s.changes(v, after)
		if err != nil || after < until {
			return found, until, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// changes returns the changes so far, and a channel that is closed at the next change.
func (s *Store) changes(v View, after uint64) ([]Change, uint64, <-chan struct{}, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if after < s.history.begun {
		return nil, 0, nil, ErrExpired
	}
	var found []Change
	for namespace, list := range s.history.lists {
		if !s.Sees(v, types.NamespacedName{Namespace: namespace}) {
			continue
		}
		some, complete := list.after(after)
		if !complete {
			return nil, 0, nil, ErrExpired
		}
		found = earliest(found, some)
	}
	if n := fitting(found); n > 0 && (n < len(found) || n == maxChanges) {
		return slices.Clone(found[:n]), found[n-1].Version, s.history.changed, nil
	}
	return found, s.history.last, s.history.changed, nil
}

// fitting returns the number of changes, but at least one, that take at most maxChangesBytes.
func fitting(found []Change) int {
	size := int64(0)
	for n, c := range found {
		if size += c.bytes; size > maxChangesBytes && n > 0 {
			return n
		}
	}
	return len(found)
}

// earliest returns the first maxChanges of the changes found so far and of those of another namespace. Both are in the order of versions.
func earliest(found, more []Change) []Change {
	if len(more) == 0 || len(found) == maxChanges && more[0].Version > found[maxChanges-1].Version {
		return found
	}
	found = append(found, more...)
	slices.SortFunc(found, func(a, b Change) int { return cmp.Compare(a.Version, b.Version) })
	return found[:min(len(found), maxChanges)]
}

// Current returns the current entry of a changed package, or nil if the package has been removed since then.
func (s *Store) Current(c Change) *Entry { return s.get(c.Catalog, c.Package) }
