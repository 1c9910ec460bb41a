package proof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Entries of the Secret in addition to the keys. Both values are times in RFC 3339 format.
const (
	// EntryTrustedBefore contains a time. The proof of an object that was created before this time is valid regardless of the
	// proof's own time, because a restore from a backup recreates objects with their old proofs.
	EntryTrustedBefore = "trusted-before"
	// EntryUnprovenBefore contains a time. Objects that were created before this time, by a version without proofs or under a key
	// that was lost, need only the lineage label.
	EntryUnprovenBefore = "unproven-before"
)

// Keys are stored in entries named key-<number>. Remit creates the first one. The key with the highest number creates
// proofs; all keys verify them.
const (
	keyPrefix = "key-"
	firstKey  = keyPrefix + "1"
	keySize   = 32
)

// ring is the parsed content of the Secret.
type ring struct {
	keys           map[string][]byte
	current        string
	trustedBefore  time.Time
	unprovenBefore time.Time
}

// parseRing parses the data of the Secret. It returns an error for unexpected data: if it skipped a key, Remit would
// no longer recognize the objects that were signed with that key.
func parseRing(data map[string][]byte) (*ring, error) {
	out := &ring{keys: map[string][]byte{}}
	highest := 0
	for entry, value := range data {
		n := keyNumber(entry)
		var err error
		switch {
		case entry == EntryTrustedBefore:
			out.trustedBefore, err = parseInstant(value)
		case entry == EntryUnprovenBefore:
			out.unprovenBefore, err = parseInstant(value)
		case n == 0:
			err = fmt.Errorf("must be %s<number>, %s or %s", keyPrefix, EntryTrustedBefore, EntryUnprovenBefore)
		case len(value) < keySize:
			err = fmt.Errorf("a key must have at least %d bytes", keySize)
		case n > highest:
			highest, out.current = n, entry
		}
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", entry, err)
		}
		if n > 0 {
			out.keys[entry] = value
		}
	}
	if highest == 0 {
		return nil, errors.New("the Secret contains no key")
	}
	return out, nil
}

func parseInstant(value []byte) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(value)))
	if err != nil {
		return at, errors.New("must be a time such as 2026-01-31T12:00:00Z")
	}
	return at, nil
}

// keyNumber returns the number of a key's entry, or 0 for other entries.
func keyNumber(entry string) int {
	digits, isKey := strings.CutPrefix(entry, keyPrefix)
	n, err := strconv.Atoi(digits)
	if !isKey || err != nil || n < 1 || strconv.Itoa(n) != digits {
		return 0
	}
	return n
}
