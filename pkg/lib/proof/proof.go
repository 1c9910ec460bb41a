package proof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// version is the first part of every proof.
const version = "v1"

// early and late bound how much earlier or later than the time of its proof an object may have been created. Timestamps
// have a resolution of one second, the clocks of API servers differ by up to two seconds, and requests take time. An
// object that is created outside these bounds is signed again immediately, so narrow bounds only cost a request.
const (
	early = 5 * time.Second
	late  = 15 * time.Second
)

// skew is the maximum difference between the clocks of two API servers.
const skew = 2 * time.Second

// subject identifies the object and the holder to which a proof applies.
type subject struct {
	kind   schema.GroupKind
	object types.NamespacedName
	holder string
}

// signature is a parsed proof: v1.<key>.<unix nanoseconds>.<mac>.
type signature struct {
	key string
	at  time.Time
	mac string
}

func (s signature) String() string {
	return strings.Join([]string{version, s.key, strconv.FormatInt(s.at.UnixNano(), 10), s.mac}, ".")
}

// parse parses a proof, or returns false if the proof is invalid. It accepts only the exact output of String, so that
// each proof has a unique encoding.
func parse(text string) (signature, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != version {
		return signature{}, false
	}
	at, err := strconv.ParseInt(parts[2], 10, 64)
	out := signature{key: parts[1], at: time.Unix(0, at), mac: parts[3]}
	return out, err == nil && out.String() == text
}

// sign creates a proof. In the input of the MAC, each part is preceded by its length, so that different lists of parts
// have different inputs.
func sign(id string, key []byte, of subject, at time.Time) signature {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{
		version, id, of.kind.Group, of.kind.Kind, of.object.Namespace, of.object.Name, of.holder, strconv.FormatInt(at.UnixNano(), 10),
	} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return signature{key: id, at: at, mac: base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}
}

// isFor reports whether the MAC is valid for the subject and the key.
func (s signature) isFor(of subject, key []byte) bool {
	return hmac.Equal([]byte(sign(s.key, key, of, s.at).mac), []byte(s.mac))
}

// fits reports whether the creationTimestamp of an object is within the bounds of the proof's time.
func (s signature) fits(created time.Time) bool {
	return !created.Before(s.at.Add(-early)) && !created.After(s.at.Add(late))
}

// Error describes why an object's origin is not proven.
type Error struct {
	Reason string
}

func (e *Error) Error() string { return e.Reason }

func unproven(format string, args ...any) error { return &Error{Reason: fmt.Sprintf(format, args...)} }
