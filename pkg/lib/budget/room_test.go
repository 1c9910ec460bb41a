package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// filled returns what n namespaces use that each take as much of a room as they get, up to most.
func filled(r Room, n int, most int64) (used []Usage) {
	for range n {
		size := most
		for !r.Admits(Request{Used: size, Grows: true, Others: used}) {
			size--
		}
		used = append(used, Usage{Used: size})
	}
	return used
}

func TestANamespaceLeavesAsMuchAsItUses(t *testing.T) {
	r := Room{Total: 384, Least: 4, Most: 512}
	used := filled(r, 7, 64)
	require.Equal(t, []Usage{{Used: 64}, {Used: 64}, {Used: 64}, {Used: 64}, {Used: 64}, {Used: 32}, {Used: 16}}, used)
	require.True(t, r.Admits(Request{Used: 8, Grows: true, Others: used}), "the first content of another namespace")
	require.False(t, r.Admits(Request{Used: 9, Grows: true, Others: used}))
	require.True(t, r.Admits(Request{Used: 64, Others: used[1:]}), "content that does not grow remains")
	require.False(t, r.Admits(Request{Used: 65, Grows: true, Others: used[1:]}))
}

// When a program starts, the namespaces with the largest content must not take what the others had before.
func TestNamespacesThatWaitGetTheirShare(t *testing.T) {
	r := Room{Total: 384, Least: 4, Most: 512}
	for _, victim := range []int64{5, 20, 37, 38} {
		for _, hostile := range []int{6, 8} {
			others := make([]Usage, hostile)
			for n := range others {
				others[n].Wants = Unknown
			}
			at := func(n int) []Usage {
				all := append([]Usage{{Wants: Unknown}}, others[:n]...)
				return append(all, others[n+1:]...)
			}
			for n := range others {
				q := Request{Used: 64, Grows: true, Waits: true, Others: at(n)}
				if r.Admits(q) {
					others[n] = Usage{Used: 64}
				} else {
					others[n].Wants = 64
				}
			}
			require.True(t, r.Admits(Request{Used: victim, Grows: true, Waits: true, Others: others}), "%d of %d", victim, hostile)
		}
	}
}

func TestTheShareIsWhatTheSmallOnesLeave(t *testing.T) {
	r := Room{Total: 100}
	require.EqualValues(t, 50, r.Share(Request{Used: 100}), "there is always one more")
	require.EqualValues(t, 40, r.Share(Request{Used: 90, Others: []Usage{{Used: 10}, {Used: 10, Wants: 5}}}))
	require.EqualValues(t, 30, r.Share(Request{Used: 90, Others: []Usage{{Used: 10}, {Wants: Unknown}}}))
	require.EqualValues(t, 95, r.Share(Request{Used: 5}))
}

// What a namespace waits for and cannot get must not be left unused.
func TestNothingIsLeftForThoseWhoWantMoreThanTheirShare(t *testing.T) {
	r := Room{Total: 100}
	q := Request{Used: 40, Grows: true, Others: []Usage{{Used: 10, Wants: 61}}}
	require.True(t, r.Admits(q))
	q.Others[0].Wants = 30
	require.True(t, r.Admits(q))
	q.Others[0] = Usage{Used: 20, Wants: 30}
	q.Used = 41
	require.False(t, r.Admits(q))
	q.Used, q.Others = 30, []Usage{{Used: 20, Wants: 30}, {Wants: 30}}
	require.False(t, r.Admits(Request{Used: 45, Grows: true, Others: q.Others}))
	require.True(t, r.Admits(q))
}
