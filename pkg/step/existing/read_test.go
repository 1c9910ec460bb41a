package existing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/decoding"
	"github.com/remit-olm/remit/test/env/controlplane"
)

func TestObjectsAreReadPageByPage(t *testing.T) {
	const open, strict = "{type: object, properties: {c: {type: integer}}}", "{type: object, properties: {c: {type: integer, maximum: 30}}}"
	live, want := things(t, open), things(t, strict)
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	c, err := client.NewWithWatch(controlplane.Shared(t).Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	pages := 0
	counting := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			pages++
			err := c.List(ctx, list, opts...)
			assert.LessOrEqual(t, len(list.(*objectPage).texts), PageSize)
			return err
		},
	})
	even := func(namespace string) bool { return namespace == "even" }

	none, err := Read(t.Context(), counting, "a", live, want, "v1")
	require.NoError(t, err, "the version is not served yet")
	require.NoError(t, none.Err(even))

	require.NoError(t, c.Create(t.Context(), live))
	for _, namespace := range []string{"even", "odd"} {
		require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	for n := range 45 {
		obj := &unstructured.Unstructured{Object: thing(t, fmt.Sprintf("{c: %d}", n))}
		obj.SetName(fmt.Sprintf("thing-%02d", n))
		obj.SetNamespace([]string{"even", "odd"}[n%2])
		if n == 0 { // retry until the version is served
			require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.NoError(ct, c.Create(t.Context(), obj.DeepCopy())) }, time.Minute, 50*time.Millisecond)
			continue
		}
		require.NoError(t, c.Create(t.Context(), obj))
	}
	pages = 0
	found, err := Read(t.Context(), counting, "a", live, want, "v1")
	require.NoError(t, err)
	require.Equal(t, 4, pages, "the first one has one object")
	require.Empty(t, found.Unchecked)
	require.ErrorContains(t, found.Err(even), "14 object(s) would be invalid in version v1: even/thing-32 (spec.c: Invalid value), even/thing-34")
	require.ErrorContains(t, found.Err(even), "2 more, 7 in namespaces that the OperatorGroup does not select")
}

// endless is a reader that repeatedly returns the same page of objects.
type endless struct {
	client.Reader
	read int
	// pages is the number of pages after which the reader blocks if stuck is true.
	pages int
	// refuses is the error that the reader returns instead of a page, or nil.
	refuses error
	stuck   bool
}

func (e *endless) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if e.stuck && e.read >= e.pages*PageSize {
		<-ctx.Done()
		return &url.Error{Op: "Get", URL: "https://server/things?continue=2", Err: ctx.Err()}
	}
	if e.refuses != nil {
		return e.refuses
	}
	items := make([]unstructured.Unstructured, PageSize)
	for i := range items {
		items[i].Object = map[string]any{"kind": "Thing", "spec": map[string]any{}}
	}
	e.read += PageSize
	return fill(list, items, "more")
}

func (*endless) RESTMapper() meta.RESTMapper { return mapper() }

// The API server stores a definition whose kind another one has, and serves the other one. At first, the objects of that one were listed and
// validated, with an account that may read them: the author of the schema, who may not, learned from the result what they contain.
func TestADefinitionOfAKindThatAnotherOneHasHasNoObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.New(controlplane.Shared(t).Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	named := func(plural, spec string) *apiextensionsv1.CustomResourceDefinition {
		out := things(t, spec)
		out.Name, out.Spec.Group = plural+".kinds.example.com", "kinds.example.com"
		out.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "-one", Kind: "Database", ListKind: "DatabaseList"}
		return out
	}
	const open, strict = "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, properties: {password: {type: string, pattern: x}}}"
	require.NoError(t, c.Create(t.Context(), named("databases", open)))
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kinds.example.com/v1", "kind": "Database", "spec": map[string]any{"password": "secret"}}}
	secret.SetName("victim")
	secret.SetNamespace("default")
	require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.NoError(ct, c.Create(t.Context(), secret.DeepCopy())) }, time.Minute, 50*time.Millisecond)
	require.NoError(t, c.Create(t.Context(), named("decoys", open)))

	found, err := Read(t.Context(), c, "a", named("decoys", open), named("decoys", strict), "v1")
	require.NoError(t, err)
	require.NoError(t, found.Err(func(string) bool { return true }))
	require.Empty(t, found.Unchecked)
	established := named("decoys", open) // as if the mapper knew only an earlier definition of the kind
	established.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	found, err = Read(t.Context(), c, "a", established, named("decoys", strict), "v1")
	require.NoError(t, err)
	require.Equal(t, "objects of version v1 were not checked, because another definition has or had their kind", found.Unchecked)
	found, err = Read(t.Context(), c, "a", named("databases", open), named("databases", strict), "v1")
	require.NoError(t, err)
	require.ErrorContains(t, found.Err(func(string) bool { return true }), "default/victim (spec.password")
}

func TestTheNumberOfObjectsIsLimited(t *testing.T) {
	crd := things(t, "{type: object}")
	all := &endless{}
	found, err := Read(t.Context(), all, "a", crd, crd, "v1")
	require.NoError(t, err)
	require.Equal(t, "not all objects of version v1 were checked", found.Unchecked)
	require.Equal(t, MaxObjects, all.read)

	all.refuses = &url.Error{Op: "Get", URL: "https://server/things?continue=1", Err: errors.New("connection refused")}
	_, err = Read(t.Context(), all, "a", crd, crd, "v1")
	require.EqualError(t, err, "list Thing.example.com: connection refused")
	all.refuses = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Read(ctx, all, "a", crd, crd, "v1")
	require.ErrorIs(t, err, context.Canceled)
}

func TestReadEndsAtTheTimeoutWithAPartialResult(t *testing.T) {
	live, want := things(t, "{type: object}"), things(t, "{type: object, required: [a]}")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := context.WithTimeoutCause(t.Context(), ReadTimeout, ErrSlow)
		defer cancel()
		found, err := Read(ctx, &endless{stuck: true, pages: 2}, "a", live, want, "v1")
		require.NoError(t, err)
		require.Equal(t, ReadTimeout, time.Since(begun))
		require.NotEmpty(t, found.Unchecked)
		require.ErrorContains(t, found.Err(func(string) bool { return false }), "at least 40 object(s) would be invalid")

		found, err = Read(ctx, &endless{}, "a", live, want, "v1")
		require.NoError(t, err, "no time is left for the next Read either")
		require.NotEmpty(t, found.Unchecked)
		require.NoError(t, found.Err(nil))
	})
}

// Objects with as many levels as decoders accept cannot be decoded as parts of a list. A user must not be able to prevent upgrades with one.
func TestAnObjectOfManyLevelsPreventsNoUpgrade(t *testing.T) {
	const open, strict = "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {c: {type: integer}}}"
	live, want := things(t, open), things(t, strict)
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{live, want} {
		crd.Name, crd.Spec.Names.Plural, crd.Spec.Names.Singular, crd.Spec.Names.Kind, crd.Spec.Names.ListKind = "deeps.example.com", "deeps", "deep", "Deep", "DeepList"
	}
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	config := controlplane.Shared(t).Config()
	config.Wrap(decoding.Tolerant(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	require.NoError(t, c.Create(t.Context(), live))
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "deep"}}))
	var deepest any = map[string]any{}
	for range 9_990 {
		deepest = map[string]any{"a": deepest}
	}
	for name, spec := range map[string]any{"a": map[string]any{"a": deepest}, "b": map[string]any{"c": "text"}} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Deep", "spec": spec}}
		obj.SetName(name)
		obj.SetNamespace("deep")
		require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.NoError(ct, c.Create(t.Context(), obj.DeepCopy())) }, time.Minute, 50*time.Millisecond)
	}
	found, err := Read(t.Context(), c, "a", live, want, "v1")
	require.NoError(t, err)
	require.Equal(t, "an object of version v1 cannot be decoded", found.Unchecked)
	require.ErrorContains(t, found.Err(func(string) bool { return true }), "at least 1 object(s) would be invalid in version v1: deep/b (spec.c: Invalid value)")
}
