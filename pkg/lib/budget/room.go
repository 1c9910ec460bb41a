package budget

import (
	"math"
	"slices"
)

// Room is what namespaces share for as long as they use it: memory, or space on disk. It prevents a few namespaces that use much from
// keeping others from their share.
type Room struct {
	// Total bounds the usage of all namespaces together. A namespace that uses at most Least is refused nothing until all together
	// use Most.
	Total, Least, Most int64
}

// Unknown is what a namespace wants whose content has not been tried since the program started.
const Unknown = math.MaxInt64

// Usage is what a namespace uses.
type Usage struct {
	Used int64
	// Wants is the usage that the namespace waits for. If it is at most Used, the namespace does not wait.
	Wants int64
}

// Request is new content of a namespace.
type Request struct {
	// Used is what the namespace would use with the content.
	Used int64
	// Grows is false if the content replaces other content that is not smaller. Waits means that content of the namespace was
	// refused, or has not been tried since the program started. A caller that sets neither it nor Usage.Wants leaves no shares.
	Grows, Waits bool
	// Others are the other namespaces.
	Others []Usage
}

// Admits reports whether there is room.
//
// A namespace can use no more than what it leaves for others, so that the first content of another one is not refused while a few
// use much more. It also leaves what others wait for, if that is within their share. Therefore, a namespace that has waited can use its
// share without leaving as much. Content that does not grow can be replaced.
func (r Room) Admits(q Request) bool {
	all := q.Used
	for _, u := range q.Others {
		all += u.Used
	}
	switch {
	case q.Used <= r.Least:
		return all <= r.Most
	case !q.Grows:
		return all <= r.Total
	}
	leaves := q.Used
	if q.Waits || slices.ContainsFunc(q.Others, Usage.waits) {
		share := r.Share(q)
		if q.Waits && q.Used <= share {
			return all <= r.Total
		}
		leaves = max(leaves, reserved(q.Others, share))
	}
	return all+leaves <= r.Total
}

// Share returns the usage that each namespace can have at the same time if none that uses or wants less leaves the rest unused, and if
// there is one more namespace than there are.
func (r Room) Share(q Request) int64 {
	wants := []int64{q.Used, Unknown}
	for _, u := range q.Others {
		wants = append(wants, max(u.Used, u.Wants))
	}
	slices.Sort(wants)
	left := r.Total
	for n, want := range wants {
		share := left / int64(len(wants)-n)
		if want > share {
			return share
		}
		left -= want
	}
	return left // not reached: the last one wants more than there is
}

func (u Usage) waits() bool { return u.Wants > u.Used }

// reserved returns the room for namespaces that wait. One that wants more than its share is left nothing, because it cannot use less.
func reserved(others []Usage, share int64) (n int64) {
	for _, u := range others {
		switch {
		case u.Wants == Unknown:
			n += max(share-u.Used, 0)
		case u.waits() && u.Wants <= share:
			n += u.Wants - u.Used
		}
	}
	return n
}
