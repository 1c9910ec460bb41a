package cert

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. The first three are defined by the contract; olmCAKey contains the CA certificate,
// despite its name.
const (
	KeyCertificate     = corev1.TLSCertKey
	KeyPrivate         = corev1.TLSPrivateKeyKey
	KeyCA              = "olmCAKey"
	keyNextCertificate = "next." + KeyCertificate
	keyNextPrivate     = "next." + KeyPrivate
	keyNextCA          = "next." + KeyCA
	keyPreviousCA      = "previous." + KeyCA
)

// Set is the content of a Deployment's Secret.
type Set struct {
	// Current is the pair that Pods use or are being rolled to.
	Current Pair
	// Next is the staged pair during a rotation.
	Next *Pair
	// Previous contains the CAs that Pods may still use until they are rolled.
	Previous [][]byte
}

// Public returns the set without private keys.
func (s Set) Public() Set {
	out := Set{Current: Pair{CA: s.Current.CA, Certificate: s.Current.Certificate}, Previous: s.Previous}
	if s.Next != nil {
		out.Next = &Pair{CA: s.Next.CA, Certificate: s.Next.Certificate}
	}
	return out
}

// Data returns the set, encoded as the data of the Secret.
func (s Set) Data() map[string][]byte {
	data := map[string][]byte{KeyCertificate: s.Current.Certificate, KeyPrivate: s.Current.Key.PEM(), KeyCA: s.Current.CA}
	if s.Next != nil {
		maps.Copy(data, map[string][]byte{
			keyNextCertificate: s.Next.Certificate, keyNextPrivate: s.Next.Key.PEM(), keyNextCA: s.Next.CA,
		})
	}
	if len(s.Previous) > 0 {
		data[keyPreviousCA] = bytes.Join(s.Previous, nil)
	}
	return data
}

// Trust returns the caBundle for callers of the Deployment: all CAs of the set, sorted by hash, so that promoting a
// pair does not change the caBundle.
func (s Set) Trust() []byte {
	all := s.authorities()
	slices.SortFunc(all, func(a, b []byte) int { return strings.Compare(Hash(a), Hash(b)) })
	return bytes.Join(slices.CompactFunc(all, bytes.Equal), nil)
}

// Hash returns the hash of the current pair's CA. It is an annotation of the Pod template, so a new hash rolls the
// Pods.
func (s Set) Hash() string { return Hash(s.Current.CA) }

// Hashes returns the sorted hashes of all CAs in the set, which must be recorded before the set is stored.
func (s Set) Hashes() []string {
	var out []string
	for _, ca := range s.authorities() {
		out = append(out, Hash(ca))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// NextHash returns the hash of the staged pair's CA in a Secret's data, or "" if no pair is staged.
func NextHash(data map[string][]byte) string { return Hash(data[keyNextCA]) }

// IsZero reports whether the set has no current pair.
func (s Set) IsZero() bool { return len(s.Current.Certificate) == 0 }

func (s Set) authorities() [][]byte {
	var out [][]byte
	if len(s.Current.CA) > 0 {
		out = append(out, s.Current.CA)
	}
	if s.Next != nil {
		out = append(out, s.Next.CA)
	}
	return append(out, s.Previous...)
}

// parse decodes a Secret's data without validating the pairs.
func parse(data map[string][]byte) Set {
	s := Set{Current: Pair{CA: data[KeyCA], Certificate: data[KeyCertificate], Key: newPrivateKey(data[KeyPrivate])}}
	next := Pair{CA: data[keyNextCA], Certificate: data[keyNextCertificate], Key: newPrivateKey(data[keyNextPrivate])}
	if len(next.CA)+len(next.Certificate)+len(next.Key.PEM()) > 0 {
		s.Next = &next
	}
	for _, c := range parseAll(data[keyPreviousCA]) {
		ca := encode(blockCertificate, c.Raw)
		if !slices.ContainsFunc(s.Previous, func(have []byte) bool { return bytes.Equal(have, ca) }) {
			s.Previous = append(s.Previous, ca)
		}
	}
	return s
}
