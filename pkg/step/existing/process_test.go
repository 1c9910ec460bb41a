package existing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects is a reader of a list of objects.
type objects []unstructured.Unstructured

func (o objects) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("not expected")
}

func (o objects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return fill(list, o, "")
}

func (objects) RESTMapper() meta.RESTMapper { return mapper() }

// mapper maps the kind of things.
func mapper() meta.RESTMapper {
	out := meta.NewDefaultRESTMapper(nil)
	out.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}, meta.RESTScopeNamespace)
	return out
}

// paged is a reader of a page with one object and another page, which reports their sizes.
type paged struct {
	objects

	read func(size int64)
}

func (p paged) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	p.read(o.Limit)
	return fill(list, p.objects, map[bool]string{true: "more"}[o.Continue == ""])
}

// fill writes objects into a list, as a client does.
func fill(list client.ObjectList, objs []unstructured.Unstructured, next string) error {
	all := &unstructured.UnstructuredList{Items: objs}
	all.SetContinue(next)
	all.SetKind("List")
	text, err := all.MarshalJSON()
	if err != nil {
		return err
	}
	return list.(json.Unmarshaler).UnmarshalJSON(text)
}

func objectsOf(t *testing.T, specs ...string) (out objects) {
	t.Helper()
	for i, spec := range specs {
		obj := unstructured.Unstructured{Object: thing(t, spec)}
		obj.SetName(fmt.Sprint("thing", i))
		out = append(out, obj)
	}
	return out
}

func repeat(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}

func items(schema string) string {
	return "{type: object, properties: {l: {type: array, items: " + schema + "}}}"
}

func numbered(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return strings.Join(all, ", ")
}

// The API server has not seen the new schema, so that it has not refused what takes a lot of memory or time to validate.
func TestValidationIsLimited(t *testing.T) {
	const open = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	for name, row := range map[string]struct {
		next, object string
		// violation and unchecked are parts of the result; "" if there is none.
		violation, unchecked string
	}{
		"a default in each item":                        {items("{type: object, properties: {d: {type: array, items: {type: integer}, default: [" + repeat("0", 1_000) + "]}}}"), "{l: [" + repeat("{}", 50_000) + "]}", tooCostly, tooCostly},
		"a default of null":                             {items("{type: object, properties: {d: {type: array, items: {type: integer}, default: [" + repeat("0", 10_000) + "]}}}"), "{l: [" + repeat("{d: null}", 10_000) + "]}", tooCostly, tooCostly},
		"a long value that is allowed, in each message": {items("{type: string, enum: [" + strings.Repeat("x", 300_000) + "]}"), "{l: [" + repeat("x", 20_000) + "]}", tooCostly, tooCostly},
		"a pattern with many repetitions":               {items("{type: string, pattern: '" + strings.Repeat("a{0,1000}", 300) + "$'}"), "{l: [" + strings.Repeat("a", 100_000) + "b]}", tooCostly, tooCostly},
		"an expression of a message": {`{type: object, properties: {a: {type: string, maxLength: 10, x-kubernetes-validations: [{rule: "true", messageExpression: "` + strings.TrimSuffix(strings.Repeat("[1,2,3].map(x, [x].map(y, y + x)).size() > 0 && ", 1_500), " && ") + ` ? self : self"}]}}}`,
			"{a: x}", "", "it takes too much memory or time"},
		"many rules":                   {"{type: object, properties: {" + numbered(20_000, "p%d: {type: string, x-kubernetes-validations: [{rule: 'self != oldSelf && self.size() > 0'}]}") + "}}", "{a: x}", "", "it takes too much memory or time"},
		"an invalid schema":            {"{type: object, properties: {a: {type: string, oneOf: [{type: integer}]}}, $ref: x}", "{a: x}", "", "is not supported"},
		"an object with many entries":  {items("{type: object, properties: {" + numbered(60, "p%d: {type: string}") + "}}"), "{l: [" + repeat("{p1: x}", 20_000) + "]}", "", ""},
		"what definitions may contain": {"{type: object, properties: {" + numbered(250, "p%d: {type: string, x-kubernetes-validations: [{rule: 'self.size() > 0'}]}") + "}}", "{p1: x}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			live, want := things(t, open), things(t, row.next)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // without limits, some take hours
			defer cancel()
			found, err := Read(ctx, objectsOf(t, row.object), "a", live, want, "v1")
			require.NoError(t, err)
			refused := found.Err(func(string) bool { return true })
			if row.violation == "" {
				require.NoError(t, refused)
			} else {
				require.ErrorContains(t, refused, "thing0 ("+row.violation)
			}
			switch row.unchecked {
			case "":
				require.Empty(t, found.Unchecked)
			case tooCostly:
				require.Equal(t, "an object is too costly to validate", found.Unchecked)
			default:
				require.Contains(t, found.Unchecked, `schema of version "v1" of CustomResourceDefinition things.example.com: `)
				require.Contains(t, found.Unchecked, row.unchecked)
			}
		})
	}
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used))
	require.LessOrEqual(t, used.Maxrss, int64(MaxMemory+256<<20)>>10, "kilobytes of the largest process, including its program")
	free, err := place(t.Context(), "a")
	require.NoError(t, err, "no process is left")
	free()
}

// What precedes a costly object is reported.
func TestValidationEndsAtACostlyObject(t *testing.T) {
	live := things(t, "{type: object, x-kubernetes-preserve-unknown-fields: true}")
	want := things(t, "{type: object, required: [a], properties: {a: {type: string}, l: {type: array, items: {type: string, enum: ["+strings.Repeat("x", 300_000)+"]}}}}")
	all := objectsOf(t, "{a: x}", "{b: x}", "{a: x, l: ["+repeat("x", 20_000)+"]}", "{b: x}")
	found, err := Read(t.Context(), all, "a", live, want, "v1")
	require.NoError(t, err)
	require.ErrorContains(t, found.Err(func(string) bool { return true }), "at least 2 object(s) would be invalid in version v1: ns/thing1 (spec.a: Required value), ns/thing2 (Too costly to validate")
}

// A namespace does not wait for all plans of another one, and what waits has little in memory.
func TestNamespacesTakeTurnsWithTheProcess(t *testing.T) {
	live := things(t, "{type: object}")
	free, err := place(t.Context(), "a")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, ErrSlow)
	defer cancel()
	_, err = Read(ctx, objectsOf(t, "{}"), "b", live, live, "v1")
	require.ErrorIs(t, err, errBusy, "what has not begun is not reported as unread")

	var (
		reads sync.WaitGroup
		mu    sync.Mutex
		order []string
	)
	for waits, namespace := range []string{"a", "a", "b"} {
		reads.Go(func() {
			_, err := Read(t.Context(), paged{objectsOf(t, "{}"), func(size int64) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprint(namespace, " reads ", size))
			}}, namespace, live, live, "v1")
			assert.NoError(t, err)
		})
		require.Eventually(t, func() bool { return running.Waiting() == waits+1 }, time.Minute, time.Millisecond)
	}
	free()
	reads.Wait()
	require.Equal(t, []string{"a reads 1", "a reads 1", "b reads 1", "b reads 20", "a reads 20", "a reads 20"}, order)
}
