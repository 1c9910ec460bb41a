package decoding

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// maxStored is the number of levels up to which the API server stores an object. It is also the limit of clients' decoders.
const maxStored = 10_000

// nested returns the text with objects in place of its "$", so that it has a number of levels in all.
func nested(text string, levels int) string {
	before, after, _ := strings.Cut(text, "$")
	in := levels - strings.Count(before, "{") - strings.Count(before, "[") + strings.Count(before, "}") + strings.Count(before, "]")
	return before + strings.Repeat(`{"f:a":`, in-1) + "{}" + strings.Repeat("}", in-1) + after
}

// deep are objects that a user can nest as deep as the API server allows.
var deep = map[string]struct {
	text    string
	refused bool
}{
	"managed fields": {`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"bad","namespace":"x",` +
		`"managedFields":[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":$}]},"spec":{"displayName":"kept"}}`, false},
	"a Pod template": {`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"bad","namespace":"x"},` +
		`"spec":{"displayName":"kept","install":{"spec":{"deployments":[{"spec":{"template":{"metadata":{"x":$}}}}]}}}}`, true},
	"a status": {`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"bad","namespace":"x"},` +
		`"spec":{"displayName":"kept"},"status":{"x":$}}`, false},
	"an unknown field": {`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"bad","namespace":"x"},` +
		`"spec":{"displayName":"kept"},"x":$}`, true},
}

func TestAnObjectOfManyLevelsAffectsOnlyItself(t *testing.T) {
	for name, c := range deep {
		for _, levels := range []int{budget.MaxLevels + 1, maxStored - 2, maxStored - 1, maxStored} {
			t.Run(fmt.Sprint(name, " ", levels), func(t *testing.T) {
				stored := nested(c.text, levels)
				require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts([]byte(stored), &map[string]any{}), "the API server decodes it")
				require.False(t, budget.HasMoreLevels([]byte(stored), levels))
				require.True(t, budget.HasMoreLevels([]byte(stored), levels-1))
				isBad := func(t *testing.T, got *operatorsv1alpha1.ClusterServiceVersion) {
					t.Helper()
					require.Equal(t, "bad", got.Name)
					require.Equal(t, "kept", got.Spec.DisplayName)
					require.Empty(t, got.ManagedFields)
					require.Equal(t, c.refused, budget.Refused(got) != nil, "%v", budget.Refused(got))
					if c.refused {
						require.ErrorContains(t, budget.Refused(got), "nested more than 1000 levels deep")
					}
				}
				listed(t, stored, isBad)
				watched(t, stored, isBad)
				for _, read := range []func(client.Client, client.Object) error{
					func(cl client.Client, o client.Object) error {
						return cl.Get(t.Context(), client.ObjectKeyFromObject(o), o)
					},
					func(cl client.Client, o client.Object) error {
						return cl.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{}`)))
					},
				} {
					got := &operatorsv1alpha1.ClusterServiceVersion{}
					got.Name, got.Namespace = "bad", "x"
					require.NoError(t, read(reading(t, stored, true), got))
					isBad(t, got)
				}
			})
		}
	}
}

func listed(t *testing.T, stored string, isBad func(*testing.T, *operatorsv1alpha1.ClusterServiceVersion)) {
	t.Helper()
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	response := `{"apiVersion":"operators.coreos.com/v1alpha1","items":[` + csv("good", "1.0.0") + `,` + stored + `,` + csv("other", "1.0.0") +
		`],"kind":"ClusterServiceVersionList","metadata":{"resourceVersion":"9"}}`
	require.NoError(t, reading(t, response, true).List(t.Context(), list))
	require.Len(t, list.Items, 3)
	require.Equal(t, "good", list.Items[0].Name)
	isBad(t, &list.Items[1])
	require.Equal(t, "other", list.Items[2].Name)
}

func watched(t *testing.T, stored string, isBad func(*testing.T, *operatorsv1alpha1.ClusterServiceVersion)) {
	t.Helper()
	events := ""
	for _, text := range []string{csv("good", "1.0.0"), stored, csv("other", "1.0.0")} {
		events += `{"type":"ADDED","object":` + text + "}\n"
	}
	w, err := reading(t, events, true).Watch(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{})
	require.NoError(t, err)
	defer w.Stop()
	for i, name := range []string{"good", "bad", "other"} {
		got, ok := (<-w.ResultChan()).Object.(*operatorsv1alpha1.ClusterServiceVersion)
		require.True(t, ok, "event %d", i)
		if require.Equal(t, name, got.Name); name == "bad" {
			isBad(t, got)
		}
	}
}

// Programs read managed fields that the API server wrote.
func TestOnlyManagedFieldsOfManyLevelsAreRemoved(t *testing.T) {
	invalid := strings.Replace(deep["managed fields"].text, `"spec":{`, `"spec":{"version":"abc",`, 1)
	for levels, want := range map[int]int{budget.MaxLevels: 1, budget.MaxLevels + 1: 0} {
		for text, refused := range map[string]bool{deep["managed fields"].text: false, invalid: true} {
			text = nested(text, levels)
			out, changed := repairer{olmScheme(t)}.check([]byte(text))
			require.Equal(t, refused || want == 0, changed)
			var got metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal(out, &got))
			require.Len(t, got.ManagedFields, want)
			if require.Equal(t, refused, budget.Refused(&got) != nil); refused {
				require.ErrorContains(t, budget.Refused(&got), "major number", "the reason is not in the managed fields")
			}
		}
	}
	text := strings.Replace(nested(deep["a Pod template"].text, maxStored), `"namespace":"x"`, `"namespace":"x","managedFields":[{"manager":"m"}]`, 1)
	out, changed := repairer{olmScheme(t)}.check([]byte(text))
	require.True(t, changed)
	var got metav1.PartialObjectMetadata
	require.NoError(t, json.Unmarshal(out, &got))
	require.Len(t, got.ManagedFields, 1)
}

func TestEveryKindMayHaveManyLevels(t *testing.T) {
	eachKind(t, func(d decoder, _ server, _ reflect.Type) {
		text := nested(strings.ReplaceAll(deep["managed fields"].text, "ClusterServiceVersion", d.kind.Kind), maxStored)
		text = strings.Replace(text, "operators.coreos.com/v1alpha1", d.typeMeta.APIVersion, 1)
		out, changed := repairer{d.scheme}.check([]byte(text))
		require.True(t, changed, d.kind)
		require.False(t, budget.HasMoreLevels(out, budget.MaxLevels))
	})
}

func TestAnEventThatEndsEarlyIsReported(t *testing.T) {
	whole := `{"type":"ADDED","object":` + csv("good", "1.0.0") + "}\n"
	for end := range len(whole) {
		out, err := io.ReadAll(newReader(io.NopCloser(strings.NewReader(whole[:end])), repairer{olmScheme(t)}.repair, event))
		if end == 0 || end == len(whole)-1 {
			require.NoError(t, err, "a watch ends after an event")
			require.Equal(t, end > 0, len(out) > 0)
			continue
		}
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, whole[:end])
		require.Empty(t, out)
	}
	_, err := io.ReadAll(newReader(io.NopCloser(strings.NewReader("[]")), repairer{olmScheme(t)}.repair, event))
	require.ErrorIs(t, err, errNoEvent)
}

// flat are objects of other kinds that a user can nest as deep as the API server allows.
var flat = map[string]struct {
	path, text string
	refused    bool
}{
	"managed fields": {"/api/v1", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad","namespace":"x",` +
		`"managedFields":[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":$}]},"kept":"yes"}`, false},
	"a spec": {"/apis/example.com/v1", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"bad","namespace":"x"},"kept":"yes","spec":$}`, true},
}

func TestAnObjectOfAnyKindOfManyLevelsAffectsOnlyItself(t *testing.T) {
	for name, c := range flat {
		for _, levels := range []int{budget.MaxLevels, budget.MaxLevels + 1, maxStored - 1, maxStored} {
			t.Run(fmt.Sprint(name, " ", levels), func(t *testing.T) {
				good, bad := nested(c.text, 100), nested(c.text, levels)
				list := `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + good + "," + bad + "," + good + "]}"
				events := `{"type":"ADDED","object":` + good + "}\n" + `{"type":"MODIFIED","object":` + bad + "}\n"
				var listed unstructured.UnstructuredList
				require.NoError(t, json.Unmarshal([]byte(through(t, c.path+"/namespaces/x/things", list)), &listed))
				require.Len(t, listed.Items, 3)
				require.Equal(t, listed.Items[0], listed.Items[2])
				for in := json.NewDecoder(strings.NewReader(through(t, c.path+"/things?watch=true", events))); ; {
					var event metav1.WatchEvent
					if err := in.Decode(&event); err != nil {
						require.ErrorIs(t, err, io.EOF)
						break
					}
					if event.Type == "ADDED" {
						require.JSONEq(t, good, string(event.Object.Raw))
						continue
					}
					listed.Items = append(listed.Items, unstructured.Unstructured{})
					require.NoError(t, json.Unmarshal(event.Object.Raw, &listed.Items[3]))
				}
				got := unstructured.Unstructured{}
				require.NoError(t, json.Unmarshal([]byte(through(t, c.path+"/namespaces/x/things/bad", bad)), &got))
				require.Equal(t, listed.Items[1], got)
				require.Equal(t, listed.Items[3], got)
				require.Equal(t, "yes", got.Object["kept"])
				if isDeep := levels > budget.MaxLevels; isDeep && c.refused {
					require.NotContains(t, got.Object, "spec")
					require.ErrorContains(t, budget.Refused(&got), "nested more than 1000 levels deep")
				} else {
					require.NoError(t, budget.Refused(&got))
					require.Equal(t, isDeep, got.GetManagedFields() == nil && !c.refused)
				}
			})
		}
	}
	require.Equal(t, "[1]", string(flatten([]byte("[1]"))), "what is not an object stays as it is")
}

// through returns what a client receives of the response of a server.
func through(t *testing.T, path, response string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	}))
	defer server.Close()
	transport := Tolerant(olmScheme(t))(server.Client().Transport)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(request)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
