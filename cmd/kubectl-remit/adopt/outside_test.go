package adopt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/recorded"
)

// tooLong is the API server's answer if an object's annotations have no space for the proof.
func tooLong() error {
	return apierrors.NewInvalid(schema.GroupKind{Group: rbacv1.GroupName, Kind: "Role"}, "role", nil)
}

// storedElsewhere adds to stored a Role and its RoleBinding in the namespace "target".
func storedElsewhere(t *testing.T) (*recorded.Server, *signer, *plan) {
	t.Helper()
	server, s, _ := stored(t)
	g := newGiven(t)
	own := g.deployment()
	server.Get(own)
	r, b := role(labeled("target", "role"), rule("configmaps", "get")), bound(labeled("target", "binding"), "Role", operator())
	for _, obj := range []client.Object{r, b} {
		server.Put(obj)
		gvk := obj.GetObjectKind().GroupVersionKind()
		require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	own.SetGroupVersionKind(g.deployment().GroupVersionKind())
	g.objects = []client.Object{own, r, b}
	g.groups["own"][0].Annotations = map[string]string{names.AnnotationManagedBy: names.ManagedByOLM}
	g.subscriptions["own"] = nil // so that the ClusterServiceVersion needs no proof
	return server, s, g.judge("own")
}

func (p *plan) verdictOf(kind, namespace string) verdict {
	for _, o := range p.report.Objects {
		if o.Kind == kind && o.Namespace == namespace {
			return verdict{o.Verdict, o.Why}
		}
	}
	return verdict{}
}

func isLeftToOLM(t *testing.T, s *signer) bool {
	t.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "own", Name: "group"}, og))
	return og.Annotations[names.AnnotationManagedBy] == names.ManagedByOLM
}

// Users of a target namespace can create a Role with OLM's labels that cannot be signed, and change it at any time.
func TestWhatCannotBeSignedElsewhereIsLeft(t *testing.T) {
	elsewhere := func() *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "role"}}
	}
	for name, edit := range map[string]func(*recorded.Server){
		"without space for the proof": func(server *recorded.Server) { server.Refuse("me: patch Role target/role", tooLong()) },
		"protected by a policy": func(server *recorded.Server) {
			server.Refuse("me: patch Role target/role", apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "role", errors.New("a policy denies this")))
		},
		"changed": func(server *recorded.Server) {
			recorded.Edit(server, elsewhere(), func(r *rbacv1.Role) { r.Labels["a"] = "b" })
		},
		"replaced": func(server *recorded.Server) {
			recorded.Edit(server, elsewhere(), func(r *rbacv1.Role) { r.UID = "another" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, s, p := storedElsewhere(t)
			edit(server)
			require.NoError(t, s.adopt(t.Context(), p))
			require.False(t, isLeftToOLM(t, s))
			require.Equal(t, Adopted, p.verdictOf("Deployment", "own").Verdict)
			got := p.verdictOf("Role", "target")
			require.Equal(t, Left, got.Verdict)
			require.Contains(t, got.why, "it could not be changed: patch Role target/role")
			require.Equal(t, verdict{Left, "it binds Role role, which is left"}, p.verdictOf("RoleBinding", "target"))
			require.NotContains(t, server.Writes(), "me: patch RoleBinding target/binding")
		})
	}
	t.Run("nothing", func(t *testing.T) {
		_, s, p := storedElsewhere(t)
		require.NoError(t, s.adopt(t.Context(), p))
		require.Equal(t, verdict{Adopted, ""}, p.verdictOf("Role", "target"))
		require.Equal(t, verdict{Adopted, ""}, p.verdictOf("RoleBinding", "target"))
	})
	t.Run("but not in the namespace", func(t *testing.T) {
		server, s, p := storedElsewhere(t)
		server.Refuse("me: patch Deployment own/op", tooLong())
		require.ErrorContains(t, s.adopt(t.Context(), p), "patch Deployment own/op")
		require.True(t, isLeftToOLM(t, s))
	})
	for name, err := range notAboutTheObject() {
		t.Run("but not after "+name, func(t *testing.T) {
			server, s, p := storedElsewhere(t)
			server.Refuse("me: patch Role target/role", err)
			require.ErrorContains(t, s.adopt(t.Context(), p), err.Error())
			require.True(t, isLeftToOLM(t, s))
			require.Equal(t, Adopt, p.verdictOf("Role", "target").Verdict)
		})
	}
}

// notAboutTheObject returns errors that may not occur in another attempt or by another user.
func notAboutTheObject() map[string]error {
	roles := schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	return map[string]error{
		"a failed connection":  errors.New("connection refused"),
		"an error of etcd":     apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		"too many requests":    apierrors.NewTooManyRequests("try again", 1),
		"a timeout":            apierrors.NewTimeoutError("etcdserver: request timed out", 1),
		"a missing permission": apierrors.NewForbidden(roles, "role", errors.New(`User "me" cannot patch resource "roles" in API group "rbac.authorization.k8s.io" in the namespace "target"`)),
		"expired credentials":  apierrors.NewUnauthorized("token expired"),
	}
}

func TestUndoSkipsWhatCannotBeRestoredElsewhere(t *testing.T) {
	server, s, p := storedElsewhere(t)
	server.Refuse("me: patch RoleBinding target/binding", tooLong())
	require.NoError(t, s.adopt(t.Context(), p))
	server.Refuse("me: patch Role target/role", tooLong())
	_ = server.Writes()
	out, err := s.undo(t.Context(), "own", true)
	require.NoError(t, err)
	undone := &plan{report: *out}
	require.Contains(t, undone.verdictOf("Role", "target").why, "it could not be changed: patch Role target/role")
	require.Equal(t, verdict{Left, "it was not adopted"}, undone.verdictOf("RoleBinding", "target"))
	require.Equal(t, verdict{Restore, ""}, undone.verdictOf("Deployment", "own"))
	wrote := server.Writes()
	require.Contains(t, wrote, "me: patch Deployment own/op")
	require.NotContains(t, strings.Join(wrote, "\n"), "RoleBinding")
	require.Equal(t, "me: delete ConfigMap remit/remit-adopted-own", wrote[len(wrote)-1])
}

func TestUndoEndsAfterAnErrorThatIsNotAboutAnObject(t *testing.T) {
	server, s, p := storedElsewhere(t)
	require.NoError(t, s.adopt(t.Context(), p))
	server.Refuse("me: patch Role target/role", notAboutTheObject()["an error of etcd"])
	_ = server.Writes()
	_, err := s.undo(t.Context(), "own", true)
	require.ErrorContains(t, err, "leader changed")
	require.NotContains(t, server.Writes(), "me: delete ConfigMap remit/remit-adopted-own", "the record is needed for another attempt")
}

// managedBy returns an edit that makes OLM the manager of a label.
func managedBy(label string) func(*metav1.ObjectMeta) {
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes(fmt.Appendf(nil, `{"f:metadata":{"f:labels":{"f:%s":{}}}}`, label))
	return func(m *metav1.ObjectMeta) {
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "olm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fields}}
	}
}

// noise returns text of a length that does not become much shorter when it is compressed.
func noise(length int) string {
	out := make([]byte, length)
	_, _ = rand.NewChaCha8([32]byte{}).Read(out)
	return base64.RawURLEncoding.EncodeToString(out)
}

func TestObjectsElsewhereDoNotFillTheRecord(t *testing.T) {
	const count = 24
	p := &plan{namespace: "own"}
	sign := func(m metav1.ObjectMeta) {
		p.signs = append(p.signs, signing{object: of("Service", m), owner: newGiven(t).owner()})
		p.report.Objects = append(p.report.Objects, Object{Kind: "Service", Namespace: m.Namespace, Name: m.Name, Verdict: Adopt, For: "op.v1"})
	}
	text := noise(maxRecord / 12)
	for i := range count {
		sign(with(metaOf("target", fmt.Sprint("op-", i)), managedBy(text[i:]))) // two similar objects are too far apart for the compression
	}
	sign(metaOf("second", "op"))
	sign(metaOf("own", "op"))
	rec := &record{Namespace: "own"}
	require.NoError(t, p.enter(rec))
	_, data, err := encode(rec)
	require.NoError(t, err)
	require.Less(t, len(data), maxRecord*2/3)
	left := 0
	for i, g := range p.signs {
		one, err := g.record()
		require.NoError(t, err)
		require.Equal(t, g.left, !rec.has(one), "what is signed is recorded")
		require.Equal(t, g.left, p.report.Objects[i].Verdict == Left)
		if g.left {
			require.Equal(t, "target", g.object.GetNamespace())
			left++
		}
	}
	require.Positive(t, left)
	require.Less(t, left, count)
}

func TestSharesTheRecordBetweenNamespaces(t *testing.T) {
	entries := func(namespace string, count int) (out []entry) {
		for i := range count {
			out = append(out, entry{recordedObject{Namespace: namespace, Name: fmt.Sprint(namespace, i)}, maxContent / 40, i})
		}
		return out
	}
	kept, left, err := (&record{Namespace: "own"}).fit(slices.Concat(entries("many", 90), entries("few", 3), entries("", 1)))
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range kept {
		count[e.object.Namespace]++
	}
	require.Equal(t, map[string]int{"many": 10, "few": 3, "": 1}, count)
	require.Len(t, left, 80)

	large := &record{Namespace: "own", Objects: []recordedObject{{Namespace: "elsewhere", Name: noise(maxRecord)}}}
	kept, left, err = large.fit(entries("few", 3))
	require.NoError(t, err)
	require.Empty(t, kept, "an earlier run has used the space")
	require.Len(t, left, 3)
}
