package proof

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxSightings limits the memory to about 20 MB. Only valid proofs are recorded, so that only Remit's objects count.
const maxSightings = 100_000

// sightings records the first object seen with each proof. If an object is deleted and immediately replaced by one with
// a copy of its proof, the copy is within the time bounds of the proof, but its UID differs.
type sightings struct {
	mu    sync.Mutex
	first map[string]types.UID
}

func (s *sightings) isFirst(proof string, uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, seen := s.first[proof]; seen {
		return first == uid
	}
	if s.first == nil || len(s.first) >= maxSightings {
		s.first = map[string]types.UID{}
	}
	s.first[proof] = uid
	return true
}
