package rbac

import (
	"math/bits"
	"slices"
)

// posting lists the indexes of the rules that contain one value, in ascending order. A nil posting is empty.
type posting struct {
	list []int32
	// bits contains the same indexes as a bit set. Only postings that are longer than a bit set have one, so the memory
	// of all postings is proportional to the size of the rules.
	bits []uint64
}

// slack determines which lists are searched as bit sets: those with more entries than the words of a bit set plus
// slack. Shorter lists are searched entry by entry.
const slack = 8

func (p *posting) add(rule int) {
	if n := len(p.list); n == 0 || p.list[n-1] != int32(rule) { //nolint:gosec // see append below
		p.list = append(p.list, int32(rule)) //nolint:gosec // rules are counted in memory, far below 1<<31
	}
}

// finish adds the bit set if the list has more entries than words+slack.
func (p *posting) finish(words int) {
	if len(p.list) <= words+slack {
		return
	}
	p.bits = make([]uint64, words)
	for _, i := range p.list {
		p.bits[i/64] |= 1 << (i % 64)
	}
}

func (p *posting) size() int {
	if p == nil {
		return 0
	}
	return len(p.list)
}

func (p *posting) has(rule int32) bool {
	switch {
	case p == nil:
		return false
	case p.bits != nil:
		return p.bits[rule/64]&(1<<(rule%64)) != 0
	}
	_, ok := slices.BinarySearch(p.list, rule)
	return ok
}

// side is the union of the postings of all values that match one value of a query.
type side []*posting

func (s side) size() int {
	n := 0
	for _, p := range s {
		n += p.size()
	}
	return n
}

func (s side) has(rule int32) bool {
	for _, p := range s {
		if p.has(rule) {
			return true
		}
	}
	return false
}

// common calls visit with the index of each rule that is on every side, until visit returns false. It may call visit
// more than once for a rule. The time is proportional to the length of the shortest side, or to a 64th of the number of
// rules if that is less.
func common(words int, visit func(rule int) bool, sides ...side) {
	shortest := 0
	for k, s := range sides {
		if s.size() < sides[shortest].size() {
			shortest = k
		}
	}
	if sides[shortest].size() > words+slack {
		commonWords(words, visit, sides)
		return
	}
	for _, p := range sides[shortest] {
		if p == nil {
			continue
		}
		for _, i := range p.list {
			if onAll(sides, shortest, i) && !visit(int(i)) {
				return
			}
		}
	}
}

func onAll(sides []side, but int, rule int32) bool {
	for k, s := range sides {
		if k != but && !s.has(rule) {
			return false
		}
	}
	return true
}

// commonWords is like common, but compares 64 rules at a time.
func commonWords(words int, visit func(rule int) bool, sides []side) {
	readers := make([][]reader, len(sides))
	for k, s := range sides {
		readers[k] = make([]reader, 0, len(s))
		for _, p := range s {
			if p != nil {
				readers[k] = append(readers[k], reader{posting: p})
			}
		}
	}
	for w := range words {
		word := ^uint64(0)
		for _, side := range readers {
			union := uint64(0)
			for i := range side {
				union |= side[i].word(w)
			}
			word &= union
		}
		for ; word != 0; word &= word - 1 {
			if !visit(w*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// reader returns the words of a posting as a bit set, in order, even if the posting is only a list.
type reader struct {
	*posting
	next int
}

func (r *reader) word(w int) uint64 {
	if r.bits != nil {
		return r.bits[w]
	}
	word := uint64(0)
	for ; r.next < len(r.list) && int(r.list[r.next]/64) == w; r.next++ {
		word |= 1 << (r.list[r.next] % 64)
	}
	return word
}
