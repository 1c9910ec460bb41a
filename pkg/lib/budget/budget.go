package budget

import "fmt"

const (
	// MaxObjectBytes is the size of the largest object that the API server stores: etcd refuses requests of more than
	// 1.5 MiB.
	MaxObjectBytes = 3 << 19
	// MaxRoleBytes is the memory of the rules of all roles of one install. Rendered, they take about four times as much.
	MaxRoleBytes = 16 << 20
	// MaxDecodedBytes is the memory of one object that a user wrote. The ClusterServiceVersions of
	// test/corpus need at most 260 KiB.
	MaxDecodedBytes = 8 << 20
)

// Error is a product, or an object, that is too large.
type Error struct {
	// What names the object or objects.
	What string
	// Size is the size, and Limit the largest size that is allowed, in bytes. Unit describes what they measure, such as "memory".
	Size, Limit int64
	Unit        string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s would need at least %s of %s; at most %s are allowed", e.What, bytes(e.Size), e.Unit, bytes(e.Limit))
}

// bytes formats a size with the precision of a limit.
func bytes(n int64) string {
	if n < 10<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Budget counts what one install, or another unit of work, is about to allocate. It is not safe for concurrent use. A nil
// Budget has no limit and counts nothing.
type Budget struct {
	what  string
	max   int64
	drawn Size
}

// New returns a budget of max bytes of memory. What names everything that is drawn from it, for messages.
func New(what string, max int64) *Budget { return &Budget{what: what, max: max} }

// Draw adds the size of values that are about to be built, and returns an *Error if they exceed the budget. The caller must not
// build them then.
func (b *Budget) Draw(s Size) error {
	if b == nil {
		return nil
	}
	b.drawn = b.drawn.Plus(s)
	if b.drawn.Memory > b.max {
		return &Error{What: b.what, Size: b.drawn.Memory, Limit: b.max, Unit: "memory"}
	}
	return nil
}

// DrawObject is like Draw for an object that is sent to the API server. It also refuses objects that the API server would
// refuse because of their size.
func (b *Budget) DrawObject(what string, s Size) error {
	if s.Text > MaxObjectBytes {
		return &Error{What: what, Size: s.Text, Limit: MaxObjectBytes, Unit: "space in the API server"}
	}
	return b.Draw(s)
}

// Drawn returns the size of everything that was drawn, including what was refused.
func (b *Budget) Drawn() Size { return b.drawn }
