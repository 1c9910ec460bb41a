package hooks

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func greeting(apiVersion string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": "Greeting", "spec": spec}}
}

func post(t *testing.T, prefix, path string, in, out any) int {
	t.Helper()
	body, err := json.Marshal(in)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	Handler(prefix).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	if w.Code == http.StatusOK {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), out))
	}
	return w.Code
}

func admit(t *testing.T, path string, obj *unstructured.Unstructured) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(obj)
	require.NoError(t, err)
	in := &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u", Object: runtime.RawExtension{Raw: raw}}}
	out := &admissionv1.AdmissionReview{}
	require.Equal(t, http.StatusOK, post(t, "", path, in, out))
	require.EqualValues(t, "u", out.Response.UID)
	return out.Response
}

func TestGreetingsDoNotSayGoodbye(t *testing.T) {
	require.True(t, admit(t, pathValidate, greeting(v1, map[string]any{"message": "hello"})).Allowed)
	require.False(t, admit(t, pathValidate, greeting(v1, map[string]any{"message": "Goodbye!"})).Allowed)
	require.False(t, admit(t, pathValidate, greeting(v2, map[string]any{"text": "goodbye"})).Allowed)
}

func TestGreetingsAreLabeled(t *testing.T) {
	require.JSONEq(t, `[{"op":"add","path":"/metadata/labels","value":{"sample.remit.dev/seen-by":"webhook"}}]`,
		string(admit(t, pathMutate, greeting(v1, nil)).Patch))
	labeled := greeting(v1, nil)
	labeled.SetLabels(map[string]string{"a": "b"})
	require.JSONEq(t, `[{"op":"add","path":"/metadata/labels/sample.remit.dev~1seen-by","value":"webhook"}]`, string(admit(t, pathMutate, labeled).Patch))
}

func TestAnotherVersionsPathsAreNotFound(t *testing.T) {
	require.Equal(t, http.StatusNotFound, post(t, "/v2", "/v1"+pathValidate, nil, nil))
	require.Equal(t, http.StatusBadRequest, post(t, "/v2", pathValidate, nil, nil))
	require.Equal(t, http.StatusBadRequest, post(t, "/v2", "/v2"+pathValidate, nil, nil))
}

func TestConvertsInBothDirections(t *testing.T) {
	old := greeting(v1, map[string]any{"message": "hello", "replicas": int64(2)})
	there := old.DeepCopy()
	require.NoError(t, Convert(there, v2))
	require.Equal(t, greeting(v2, map[string]any{"text": "hello", "greeters": int64(2)}), there)
	require.NoError(t, Convert(there, v1))
	require.Equal(t, old, there)
	require.Error(t, Convert(there, group+"/v3"))

	raw, err := json.Marshal(old)
	require.NoError(t, err)
	in := &apiextensionsv1.ConversionReview{Request: &apiextensionsv1.ConversionRequest{
		UID: "u", DesiredAPIVersion: v2, Objects: []runtime.RawExtension{{Raw: raw}},
	}}
	out := &apiextensionsv1.ConversionReview{}
	require.Equal(t, http.StatusOK, post(t, "", pathConvert, in, out))
	require.Contains(t, string(out.Response.ConvertedObjects[0].Raw), `"text":"hello"`)
	in.Request.DesiredAPIVersion = "x"
	require.Equal(t, http.StatusOK, post(t, "", pathConvert, in, out))
	require.Equal(t, "Failure", out.Response.Result.Status)
}
