package proof

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Options configures New. Scheme and Secret are required.
type Options struct {
	// Scheme resolves the kinds of typed objects.
	Scheme *runtime.Scheme
	// Secret is the name of the Secret that contains the keys, for messages and Load.
	Secret types.NamespacedName
	// Ahead is how far the API server's clock, which determines creationTimestamps, is ahead of the local clock.
	Ahead time.Duration
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Keys creates and verifies proofs. It is safe for concurrent use. With a nil *Keys, Sign, Check and CheckSince return
// an error.
type Keys struct {
	scheme *runtime.Scheme
	secret types.NamespacedName
	clock  clock.PassiveClock
	ring   atomic.Pointer[ring]
	ahead  time.Duration
	sightings
}

// New returns the keys in the data of the Secret. It returns an error if the data is invalid.
func New(o Options, data map[string][]byte) (*Keys, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	k := &Keys{scheme: o.Scheme, secret: o.Secret, clock: o.Clock, ahead: o.Ahead}
	return k, k.Update(data)
}

// Update replaces the keys with those of a changed Secret. If the data is invalid, the keys do not change.
func (k *Keys) Update(data map[string][]byte) error {
	r, err := parseRing(data)
	if err != nil {
		return fmt.Errorf("read the keys of Secret %s: %w", k.secret, err)
	}
	k.ring.Store(r)
	return nil
}

func (k *Keys) now() time.Time { return k.clock.Now().Add(k.ahead) }

// Sign adds a proof for the holder to desired. live is the existing object, which must have passed Check or have just
// been created by the caller, or nil if there is none. If live has a valid proof under the current key, desired gets
// the same proof.
func (k *Keys) Sign(desired *unstructured.Unstructured, holder string, live *unstructured.Unstructured) error {
	of, err := k.subjectOf(desired, holder)
	if err != nil {
		return err
	}
	r, at := k.ring.Load(), k.now()
	if live != nil {
		at = live.GetCreationTimestamp().Time
		text := live.GetAnnotations()[names.AnnotationProof]
		has, ok := parse(text)
		if ok && has.key == r.current && has.isFor(of, r.keys[r.current]) && has.fits(at) {
			apply.Annotate(desired, names.AnnotationProof, text)
			k.isFirst(text, live.GetUID()) // so that Check refuses a copy of the proof on another object
			return nil
		}
	}
	apply.Annotate(desired, names.AnnotationProof, sign(r.current, r.keys[r.current], of, at).String())
	return nil
}

// Check returns nil if the object's proof shows that Remit created the object for the holder, and otherwise an error
// that explains what is wrong. Objects older than EntryUnprovenBefore do not need a proof; the caller must therefore
// also require the holder's label.
func (k *Keys) Check(obj client.Object, holder string) error {
	return k.CheckSince(obj, holder, time.Time{})
}

// CheckSince is like Check, but also rejects objects that were created before the time "since", apart from a tolerance for
// clock skew. The holder did not exist at that time, so such objects were created for an earlier holder with the same name.
// EntryUnprovenBefore and EntryTrustedBefore take precedence; a restore, for example, can create holders after their
// objects.
func (k *Keys) CheckSince(obj client.Object, holder string, since time.Time) error {
	of, err := k.subjectOf(obj, holder)
	if err != nil {
		return err
	}
	r := k.ring.Load()
	if obj.GetCreationTimestamp().Time.Before(r.unprovenBefore) {
		return nil
	}
	return k.check(r, obj, of, since)
}

// Proves reports whether the object has a valid proof for the holder. Unlike Check, it does not accept objects without a proof, so
// the caller need not require a label.
func (k *Keys) Proves(obj client.Object, holder string) bool {
	of, err := k.subjectOf(obj, holder)
	return err == nil && k.check(k.ring.Load(), obj, of, time.Time{}) == nil
}

func (k *Keys) check(r *ring, obj client.Object, of subject, since time.Time) error {
	text := obj.GetAnnotations()[names.AnnotationProof]
	has, ok := parse(text)
	key, known := r.keys[has.key]
	created := obj.GetCreationTimestamp().Time
	switch {
	case text == "":
		return unproven("it has no proof that Remit created it (annotation %s)", names.AnnotationProof)
	case !ok, keyNumber(has.key) == 0:
		return unproven("its annotation %s is not a valid proof", names.AnnotationProof)
	case !known:
		return unproven("its annotation %s was made with %s, which Secret %s does not contain; an administrator can restore the Secret from a backup, or set %s in it",
			names.AnnotationProof, has.key, k.secret, EntryUnprovenBefore)
	case !has.isFor(of, key):
		return unproven("its annotation %s was made for another object", names.AnnotationProof)
	case created.Before(r.trustedBefore):
		return nil
	case created.Before(since.Add(-skew)):
		return unproven("it was created for an earlier namespace with the same name; after a restore from a backup, an administrator can set %s in Secret %s",
			EntryTrustedBefore, k.secret)
	case !has.fits(created):
		return unproven("its annotation %s was made for an object that was created at another time; after a restore from a backup, an administrator can set %s in Secret %s",
			names.AnnotationProof, EntryTrustedBefore, k.secret)
	case !k.isFirst(text, obj.GetUID()):
		return unproven("its annotation %s was made for an object that was deleted", names.AnnotationProof)
	}
	return nil
}

func (k *Keys) subjectOf(obj client.Object, holder string) (subject, error) {
	if k == nil {
		return subject{}, unproven("no key is available to verify proofs")
	}
	gvk, err := apiutil.GVKForObject(obj, k.scheme)
	if err != nil {
		return subject{}, fmt.Errorf("determine the kind of object %q: %w", obj.GetName(), err)
	}
	return subject{kind: gvk.GroupKind(), object: client.ObjectKeyFromObject(obj), holder: holder}, nil
}

// maxSightings is the maximum number of recorded proofs, which limits the memory to about 20 MB. Only valid proofs are
// recorded, so only Remit's objects count toward the limit.
const maxSightings = 100_000

// sightings records the first object seen with each proof. If an object is deleted and immediately replaced by one
// with a copy of its proof, the copy is within the time bounds of the proof but has a different UID.
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
