package proof

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Entries of the Secret other than keys. Both are instants in RFC 3339.
const (
	// EntryTrustedBefore makes proofs valid regardless of their time, on objects created before the instant: a restore
	// from a backup creates objects anew.
	EntryTrustedBefore = "trusted-before"
	// EntryUnprovenBefore makes objects created before the instant recognizable by their lineage label alone: they were
	// created by a version without proofs, or under a key that is lost.
	EntryUnprovenBefore = "unproven-before"
)

// The entry of a key is key-<number>. Remit creates the first; the key with the highest number signs, and all verify.
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

// parseRing fails on anything unexpected: a key that is skipped would disown the objects that it proves.
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
			err = fmt.Errorf("want %s<number>, %s or %s", keyPrefix, EntryTrustedBefore, EntryUnprovenBefore)
		case len(value) < keySize:
			err = fmt.Errorf("a key has at least %d bytes", keySize)
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
		return nil, errors.New("it contains no key")
	}
	return out, nil
}

func parseInstant(value []byte) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(value)))
	if err != nil {
		return at, errors.New("want a time such as 2026-01-31T12:00:00Z")
	}
	return at, nil
}

// keyNumber returns 0 if the entry is not that of a key.
func keyNumber(entry string) int {
	digits, isKey := strings.CutPrefix(entry, keyPrefix)
	n, err := strconv.Atoi(digits)
	if !isKey || err != nil || n < 1 || strconv.Itoa(n) != digits {
		return 0
	}
	return n
}
