package proof

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxSightings limits the memory to some 20 MB. Only Remit can add to it: a sighting is of a valid proof.
const maxSightings = 100_000

// sightings remembers the first object seen with each proof. Somebody who deletes an object and immediately creates
// another with a copy of its proof is within the time bounds of the proof, but the new object has another UID.
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
