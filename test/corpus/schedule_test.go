package corpus

import (
	"slices"
	"sync"
)

// schedule runs jobs concurrently, but never two that claim the same name, because the name of a
// CustomResourceDefinition is unique in a cluster.
type schedule struct {
	mu      sync.Mutex
	free    *sync.Cond
	waiting []*job
	claimed map[string]bool
}

type job struct {
	claims []string
	do     func()
}

func (s *schedule) run(workers int) {
	s.free, s.claimed = sync.NewCond(&s.mu), map[string]bool{}
	s.spread()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for j := s.next(); j != nil; j = s.next() {
				j.do()
				s.done(j)
			}
		})
	}
	all.Wait()
}

// spread puts the jobs with the most contended names first, because they can only run sequentially.
func (s *schedule) spread() {
	wanted := map[string]int{}
	for _, j := range s.waiting {
		for _, c := range j.claims {
			wanted[c]++
		}
	}
	weight := func(j *job) int {
		most := 0
		for _, c := range j.claims {
			most = max(most, wanted[c])
		}
		return most
	}
	slices.SortStableFunc(s.waiting, func(a, b *job) int { return weight(b) - weight(a) })
}

// next waits for a job whose names are not in use and returns it, or nil if no jobs are left.
func (s *schedule) next() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		i := slices.IndexFunc(s.waiting, func(j *job) bool {
			return !slices.ContainsFunc(j.claims, func(c string) bool { return s.claimed[c] })
		})
		if i < 0 {
			s.free.Wait()
			continue
		}
		j := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		for _, c := range j.claims {
			s.claimed[c] = true
		}
		return j
	}
	return nil
}

func (s *schedule) done(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range j.claims {
		delete(s.claimed, c)
	}
	s.free.Broadcast()
}
