package decoding

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

const path = "/apis/operators.coreos.com/v1alpha1"

// csv returns a ClusterServiceVersion as JSON.
func csv(name, version string) string {
	return fmt.Sprintf(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":%q,"namespace":"x","resourceVersion":"7"},`+
		`"spec":{"displayName":"<%s>","version":%q},"status":{"phase":"Failed","lastUpdateTime":[]}}`, name, name, version)
}

// reading returns a client of a server with one response.
func reading(t *testing.T, response string, wrapped bool) client.WithWatch {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
		if f, ok := w.(http.Flusher); ok && r.URL.Query().Has("watch") {
			f.Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	if wrapped {
		config.Wrap(Tolerant(olmScheme(t)))
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion"), meta.RESTScopeNamespace)
	c, err := client.NewWithWatch(config, client.Options{Scheme: olmScheme(t), Mapper: mapper})
	require.NoError(t, err)
	return c
}

func TestAListContainsWhatCanBeDecoded(t *testing.T) {
	response := `{"apiVersion":"operators.coreos.com/v1alpha1","items":[` + csv("good", "1.0.0") + `,` + csv("bad", "abc") + `,` + csv("other", "1.0.0") +
		`],"kind":"ClusterServiceVersionList","metadata":{"resourceVersion":"9","continue":"more"}}`
	require.Error(t, reading(t, response, false).List(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{}), "the reason for this package")
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	require.NoError(t, reading(t, response, true).List(t.Context(), list))
	require.Len(t, list.Items, 3)
	require.Equal(t, "more", list.Continue)
	for i, name := range []string{"good", "bad", "other"} {
		got := &list.Items[i]
		require.Equal(t, name, got.Name)
		require.Equal(t, "<"+name+">", got.Spec.DisplayName)
		require.Equal(t, operatorsv1alpha1.CSVPhaseFailed, got.Status.Phase)
		require.Equal(t, name == "bad", budget.Refused(got) != nil, "a status is not a reason to refuse an object")
	}
	require.EqualError(t, budget.Refused(&list.Items[1]), "a part of the object cannot be decoded; correct the field that the reason names, or delete the object: "+
		`"Invalid character(s) found in major number \"0abc\""`)
	for _, empty := range []string{`[]`, `null`} {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		require.NoError(t, reading(t, `{"items":`+empty+`,"kind":"ClusterServiceVersionList","apiVersion":"operators.coreos.com/v1alpha1"}`, true).List(t.Context(), list))
		require.Empty(t, list.Items)
	}
	require.Error(t, reading(t, response[:len(response)-90], true).List(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{}), "a part of a list is not a list")
}

func TestAnObjectIsReadWithoutWhatCannotBeDecoded(t *testing.T) {
	got := &operatorsv1alpha1.ClusterServiceVersion{}
	require.Error(t, reading(t, csv("bad", "abc"), false).Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "bad"}, got))
	got = &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(t, reading(t, csv("bad", "abc"), true).Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "bad"}, got))
	require.Error(t, budget.Refused(got))
	require.Equal(t, "7", got.ResourceVersion)
	got = &operatorsv1alpha1.ClusterServiceVersion{}
	got.Name, got.Namespace = "bad", "x"
	require.NoError(t, reading(t, csv("bad", "abc"), true).Patch(t.Context(), got, client.RawPatch("application/merge-patch+json", []byte(`{}`))), "responses to writes too")
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion"))
	text := strings.ReplaceAll(csv("x", "abc"), "ClusterServiceVersion", "Unknown")
	require.NoError(t, reading(t, text, true).Get(t.Context(), client.ObjectKey{Namespace: "x", Name: "bad"}, other))
	require.NoError(t, budget.Refused(other), "not a kind of the scheme")
}

func TestAWatchContinuesAfterWhatCannotBeDecoded(t *testing.T) {
	events := ""
	for i, text := range []string{csv("good", "1.0.0"), csv("bad", "abc"), csv("other", "1.0.0")} {
		events += fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[i], text)
	}
	w, err := reading(t, events, true).Watch(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{})
	require.NoError(t, err)
	defer w.Stop()
	for i, name := range []string{"good", "bad", "other"} {
		got := <-w.ResultChan()
		csv, ok := got.Object.(*operatorsv1alpha1.ClusterServiceVersion)
		require.True(t, ok, "%v", got.Object)
		require.Equal(t, name, csv.Name)
		require.Equal(t, []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[i], got.Type)
		require.Equal(t, name == "bad", budget.Refused(csv) != nil)
	}
}

func TestOnlyOwnKindsAreRepaired(t *testing.T) {
	const no, other, own = "no objects", "objects", "own objects"
	for url, want := range map[string]string{
		"/api/v1/namespaces/apis/pods": other, "/api/v1/namespaces/apis/pods/operators.coreos.com": other, "/apis/apps/v1/namespaces/api/deployments": other,
		"/api/v1/pods": other, "/apis/apps/v1/deployments": other, "/prefix/api/v1/namespaces/x/configmaps/y": other,
		path: no, "/apis/operators.coreos.com": no, "/apis": no, "/api/v1": no, "/openapi/v3": no,
		path + "/namespaces/x/clusterserviceversions/y/status": own, "/prefix" + path + "/clusterserviceversions": own,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+url, nil)
		require.NoError(t, err)
		form, isOwn := formOf(r)
		require.Equal(t, want != no, form != nil, url)
		require.Equal(t, want == own, isOwn, url)
	}
}

// unread is a response that knows whether a client has read it to its end.
type unread struct {
	io.Reader
	ended bool
}

func (r *unread) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.ended = r.ended || err == io.EOF
	return n, err
}

func (r *unread) Close() error { return nil }

func TestAResponseIsReadToItsEnd(t *testing.T) {
	for name, text := range map[string]struct {
		form form
		text string
	}{
		"object": {object, csv("good", "1.0.0") + "\n"},
		"list":   {items, `{"kind":"ClusterServiceVersionList","items":[]}` + "\n"},
	} {
		body := &unread{Reader: iotest.OneByteReader(strings.NewReader(text.text))}
		_, err := io.ReadAll(newReader(body, repairer{olmScheme(t)}.repair, text.form))
		require.NoError(t, err)
		require.True(t, body.ended, "%s: the connection cannot be used for another request", name)
	}
}

func TestAQuantityThatTakesHoursIsNotParsed(t *testing.T) {
	text := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"Subscription","metadata":{"name":"bad","namespace":"x","annotations":{"a":"1e-9999"}},` +
		`"spec":{"name":"p","source":"s","sourceNamespace":"n","config":{"resources":{"limits":{"cpu":"1e-2147483647","memory":"1Gi"}}}}}`
	got := &operatorsv1alpha1.Subscription{}
	require.NoError(t, json.Unmarshal(repairer{olmScheme(t)}.repair([]byte(text)), got))
	require.Equal(t, "p", got.Spec.Package)
	require.True(t, got.Spec.Config == nil || len(got.Spec.Config.Resources.Limits) == 0, "the field cannot be decoded")
	require.Equal(t, "1e-9999", got.Annotations["a"])
	require.ErrorContains(t, budget.Refused(got), "1e-2147483647")
}

// subscription returns a Subscription with a config as JSON.
func subscription(config string) []byte {
	return []byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"Subscription","metadata":{"name":"x","namespace":"y"},"spec":{"name":"p","config":` + config + `}}`)
}

// repeated returns an entry of a list or map as often as it fits into a size. It may contain its number.
func repeated(size int, entry string) string {
	var out strings.Builder
	for i := 0; out.Len() < size; i++ {
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString(strings.ReplaceAll(entry, "#", strconv.Itoa(i)))
	}
	return out.String()
}

func TestOnlySmallFieldsAreSearched(t *testing.T) {
	for name, c := range map[string]struct {
		config        string
		env, selector bool
	}{
		"small":             {`{"env":[{"name":"a"}],"nodeSelector":{"a":[],"b":"x"},"tolerations":{}}`, true, true},
		"large":             {`{"env":[` + repeated(maxSearched, `{"name":"a"}`) + `],"nodeSelector":{"a":[],"b":"x"},"tolerations":{}}`, false, false},
		"large twice":       {`{"env":[{"name":"a"}],"nodeSelector":{"a":"` + strings.Repeat("x", maxSearched*2/3) + `","b":"x","c":[]}}`, true, false},
		"many fields":       {`{"env":[{"name":"a"}],"nodeSelector":{` + repeated(1000, `"#":[]`) + `,"b":"x"},"tolerations":{}}`, true, false},
		"fields of several": {`{"env":[{"name":"a"}],"affinity":{` + repeated(600, `"#":"1e-9999"`) + `},"nodeSelector":{` + repeated(600, `"#":[]`) + `,"b":"x"}}`, true, false},
	} {
		got := &operatorsv1alpha1.Subscription{}
		require.NoError(t, json.Unmarshal(repairer{olmScheme(t)}.repair(subscription(c.config)), got), name)
		require.Error(t, budget.Refused(got), name)
		require.Equal(t, "p", got.Spec.Package, name)
		config := ptr.Deref(got.Spec.Config, operatorsv1alpha1.SubscriptionConfig{})
		require.Equal(t, c.env, len(config.Env) > 0, name)
		require.Equal(t, c.selector, config.NodeSelector["b"] == "x", name)
	}
}

func TestAnUpdateStrategyDoesNotHideAnotherField(t *testing.T) {
	for spec, want := range map[string]bool{
		`{"sourceType":"grpc","updateStrategy":{}}`:                                              false,
		`{"sourceType":"grpc","updateStrategy":{},"grpcPodConfig":{"memoryTarget":"1e-999999"}}`: true,
	} {
		got := &operatorsv1alpha1.CatalogSource{}
		text := `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"CatalogSource","metadata":{"name":"x"},"spec":` + spec + `}`
		require.NoError(t, json.Unmarshal(repairer{olmScheme(t)}.repair([]byte(text)), got))
		require.Equal(t, want, budget.Refused(got) != nil, spec)
	}
}
