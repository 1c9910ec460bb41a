package proof_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/proof"
	"github.com/remit-olm/remit/test/env/proofs"
)

const holder = "mark"

// born is the API server's time and the creationTimestamp of the Role in the tests.
var born = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func key(fill string) []byte { return bytes.Repeat([]byte(fill), 32) }

func keysOf(t *testing.T, data map[string][]byte) *proof.Keys {
	t.Helper()
	keys, err := proof.New(proof.Options{
		Scheme: proofs.Scheme(), Secret: types.NamespacedName{Namespace: "remit", Name: "remit-proof"},
		Clock: testclock.NewFakePassiveClock(born.Add(-time.Hour)), Ahead: time.Hour,
	}, data)
	require.NoError(t, err)
	return keys
}

// role returns a Role that does not exist yet.
func role() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion("rbac.authorization.k8s.io/v1")
	obj.SetKind("Role")
	obj.SetNamespace("t1")
	obj.SetName("r")
	return obj
}

// created returns a Role with a proof, UID and creationTimestamp, as the API server stores it.
func created(t *testing.T, keys *proof.Keys, edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	obj := role()
	require.NoError(t, keys.Sign(obj, holder, nil))
	obj.SetUID("1")
	obj.SetCreationTimestamp(metav1.NewTime(born))
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func TestVerifiesEveryBoundField(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a")})
	text := created(t, keys).GetAnnotations()[names.AnnotationProof]
	parts := strings.Split(text, ".")
	annotation := func(text string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{names.AnnotationProof: text}) }
	}
	replaced := func(i int, with string) func(*unstructured.Unstructured) {
		changed := append([]string{}, parts...)
		changed[i] = with
		return annotation(strings.Join(changed, "."))
	}
	at := func(d time.Duration) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(born.Add(d))) }
	}
	for _, row := range []struct {
		name string
		edit func(*unstructured.Unstructured)
		why  string
	}{
		{"unchanged", func(*unstructured.Unstructured) {}, ""},
		{"another API version", func(o *unstructured.Unstructured) { o.SetAPIVersion("rbac.authorization.k8s.io/v2") }, ""},
		{"created within the bounds", at(15 * time.Second), ""},
		{"another name", func(o *unstructured.Unstructured) { o.SetName("s") }, "made for another object"},
		{"another namespace", func(o *unstructured.Unstructured) { o.SetNamespace("t2") }, "made for another object"},
		{"parts moved between namespace and name", func(o *unstructured.Unstructured) { o.SetNamespace("t"); o.SetName("1r") }, "made for another object"},
		{"another kind", func(o *unstructured.Unstructured) { o.SetKind("RoleBinding") }, "made for another object"},
		{"another group", func(o *unstructured.Unstructured) { o.SetAPIVersion("other.io/v1") }, "made for another object"},
		{"another time in the proof", replaced(2, parts[2][:len(parts[2])-1]+"1"), "made for another object"},
		{"another MAC", replaced(3, strings.Repeat("A", 43)), "made for another object"},
		{"no MAC", replaced(3, ""), "made for another object"},
		{"another key", replaced(1, "key-2"), "made with key-2, which Secret remit/remit-proof does not contain; an administrator can restore the Secret"},
		{"an invalid key name", replaced(1, "\x1b[31m"), "not a valid proof"},
		{"another version", replaced(0, "v2"), "not a valid proof"},
		{"a time in another format", replaced(2, "+"+parts[2]), "not a valid proof"},
		{"more parts", annotation(text + ".x"), "not a valid proof"},
		{"no proof", annotation(""), "has no proof"},
		{"created before it was signed", at(-6 * time.Second), "was created at another time; after a restore"},
		{"created long after it was signed", at(16 * time.Second), "was created at another time; after a restore"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := keys.Check(created(t, keys, row.edit), holder)
			if row.why == "" {
				require.NoError(t, err)
				return
			}
			var unproven *proof.Error
			require.ErrorAs(t, err, &unproven)
			require.ErrorContains(t, err, row.why)
		})
	}
	require.ErrorContains(t, keys.Check(created(t, keys), "another"), "made for another object")
	require.ErrorContains(t, keysOf(t, map[string][]byte{"key-1": key("b")}).Check(created(t, keys), holder), "made for another object", "another cluster")
	require.Error(t, (*proof.Keys)(nil).Check(created(t, keys), holder))
	require.Error(t, (*proof.Keys)(nil).Sign(role(), holder, nil))
}

func TestVerifiesTypedObjects(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a")})
	obj := created(t, keys)
	meta := metav1.ObjectMeta{Namespace: "t1", Name: "r", UID: "1", CreationTimestamp: metav1.NewTime(born), Annotations: obj.GetAnnotations()}
	require.NoError(t, keys.Check(&rbacv1.Role{ObjectMeta: meta}, holder))
	require.Error(t, keys.Check(&rbacv1.RoleBinding{ObjectMeta: meta}, holder))
}

func TestRefusesACopiedProofOnARecreatedObject(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a")})
	first := created(t, keys)
	require.NoError(t, keys.Check(first, holder))
	second := first.DeepCopy()
	second.SetUID("2")
	require.ErrorContains(t, keys.Check(second, holder), "made for an object that was deleted")
	require.NoError(t, keys.Check(first, holder))
}

func TestRefusesACopiedProofAfterTheOriginalIsSigned(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a")})
	first := created(t, keys, func(o *unstructured.Unstructured) { o.SetUID("1") })
	require.NoError(t, keys.Sign(role(), holder, first), "signing records the created object")
	second := first.DeepCopy()
	second.SetUID("2")
	require.ErrorContains(t, keys.Check(second, holder), "made for an object that was deleted")
}

func TestKeepsAProofUntilThereIsANewerKey(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-2": key("a")})
	live := created(t, keys)
	again := role()
	require.NoError(t, keys.Sign(again, holder, live))
	require.Equal(t, live.GetAnnotations(), again.GetAnnotations())

	require.NoError(t, keys.Update(map[string][]byte{"key-2": key("a"), "key-10": key("b")}))
	require.NoError(t, keys.Check(live, holder), "the older key still verifies")
	live.SetCreationTimestamp(metav1.NewTime(born.Add(10 * time.Second)))
	require.NoError(t, keys.Sign(again, holder, live))
	require.Contains(t, again.GetAnnotations()[names.AnnotationProof], "v1.key-10.")
	again.SetCreationTimestamp(live.GetCreationTimestamp())
	require.NoError(t, keys.Update(map[string][]byte{"key-10": key("b")}))
	require.NoError(t, keys.Check(again, holder))
	require.ErrorContains(t, keys.Check(live, holder), "made with key-2, which Secret remit/remit-proof does not contain")
}

func TestTrustsRestoredObjectsBeforeAnInstant(t *testing.T) {
	data := map[string][]byte{"key-1": key("a")}
	keys := keysOf(t, data)
	restored := created(t, keys, func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.NewTime(born.Add(time.Hour))) })
	forged := restored.DeepCopy()
	forged.SetName("forged")
	require.Error(t, keys.Check(restored, holder))

	data[proof.EntryTrustedBefore] = []byte(born.Add(time.Hour).Format(time.RFC3339))
	require.NoError(t, keys.Update(data))
	require.Error(t, keys.Check(restored, holder), "trusted-before is exclusive")
	data[proof.EntryTrustedBefore] = []byte(born.Add(2*time.Hour).Format(time.RFC3339) + "\n")
	require.NoError(t, keys.Update(data))
	require.NoError(t, keys.Check(restored, holder))
	require.ErrorContains(t, keys.Check(forged, holder), "made for another object", "everything except the time is still verified")

	again := role()
	require.NoError(t, keys.Sign(again, holder, restored))
	again.SetCreationTimestamp(restored.GetCreationTimestamp())
	delete(data, proof.EntryTrustedBefore)
	require.NoError(t, keys.Update(data))
	require.NoError(t, keys.Check(again, holder), "the new proof has the time of the restore")
}

// A recreated namespace must not own the objects of the deleted namespace with the same name.
func TestInheritsNothingFromAnEarlierNamespace(t *testing.T) {
	data := map[string][]byte{"key-1": key("a")}
	keys := keysOf(t, data)
	live := created(t, keys)
	at := live.GetCreationTimestamp().Time
	require.NoError(t, keys.CheckSince(live, holder, at.Add(-time.Hour)))
	require.NoError(t, keys.CheckSince(live, holder, at.Add(time.Second)), "the clocks of two API servers may differ")
	require.ErrorContains(t, keys.CheckSince(live, holder, at.Add(3*time.Second)), "created for an earlier namespace with the same name; after a restore",
		"the collision adds what to do, which depends on the kind: deleting a CustomResourceDefinition deletes its custom resources")

	data[proof.EntryTrustedBefore] = []byte(at.Add(time.Minute).Format(time.RFC3339))
	require.NoError(t, keys.Update(data))
	require.NoError(t, keys.CheckSince(live, holder, at.Add(time.Hour)), "a restore creates cluster-scoped objects first")
	require.Error(t, keys.CheckSince(live, "another", at.Add(time.Hour)))
}

func TestAcceptsObjectsWithoutProofsBeforeAnInstant(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a"), proof.EntryUnprovenBefore: []byte(born.Format(time.RFC3339))})
	old := role()
	old.SetCreationTimestamp(metav1.NewTime(born.Add(-time.Second)))
	require.NoError(t, keys.Check(old, holder))
	again := role()
	require.NoError(t, keys.Sign(again, holder, old))
	require.NotEmpty(t, again.GetAnnotations()[names.AnnotationProof])
	old.SetCreationTimestamp(metav1.NewTime(born))
	require.Error(t, keys.Check(old, holder))
}

func TestRefusesAnInvalidSecret(t *testing.T) {
	keys := keysOf(t, map[string][]byte{"key-1": key("a")})
	live := created(t, keys)
	for want, data := range map[string]map[string][]byte{
		"the Secret contains no key":     {},
		"the Secret contains no key ":    {proof.EntryTrustedBefore: []byte("2026-01-31T12:00:00Z")},
		"at least 32 bytes":              {"key-1": key("a")[:31]},
		`entry "key-0"`:                  {"key-0": key("a"), "key-1": key("a")},
		`entry "key-01"`:                 {"key-01": key("a"), "key-1": key("a")},
		`entry "password"`:               {"password": key("a"), "key-1": key("a")},
		"must be a time such as 2026-01": {proof.EntryTrustedBefore: []byte("yesterday"), "key-1": key("a")},
		`entry "unproven-before"`:        {proof.EntryUnprovenBefore: []byte(""), "key-1": key("a")},
	} {
		err := keys.Update(data)
		require.ErrorContains(t, err, strings.TrimSpace(want))
		require.ErrorContains(t, err, "Secret remit/remit-proof")
		require.NotContains(t, err.Error(), "aaaa", "the error contains no key")
	}
	require.NoError(t, keys.Check(live, holder))
}
