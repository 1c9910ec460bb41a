package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// Refused is a message that the validating webhook refuses.
	Refused = "goodbye"
	// Label is set on Greetings by the mutating webhook; its value is the version of the operator.
	Label = "sample.remit.dev/seen-by"

	pathValidate = "/validate"
	pathMutate   = "/mutate"
	pathConvert  = "/convert"
	// maxBody is the maximum size of a review, in bytes.
	maxBody = 8 << 20
)

// Handler serves the webhooks. If prefix is set, it also serves them below that path, so that tests can call a
// particular version of the operator.
func Handler(prefix string) http.Handler {
	mux := http.NewServeMux()
	version := strings.Trim(prefix, "/")
	for _, at := range slices.Compact([]string{"", prefix}) {
		mux.Handle(at+pathValidate, review(validate))
		mux.Handle(at+pathMutate, review(mutate(version)))
		mux.HandleFunc(at+pathConvert, convert)
	}
	return mux
}

// review answers an AdmissionReview.
func review(answer func(*unstructured.Unstructured) *admissionv1.AdmissionResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(in); err != nil || in.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		obj := &unstructured.Unstructured{}
		response := &admissionv1.AdmissionResponse{Allowed: true}
		if len(in.Request.Object.Raw) > 0 {
			if err := json.Unmarshal(in.Request.Object.Raw, &obj.Object); err != nil {
				http.Error(w, "no object", http.StatusBadRequest)
				return
			}
			response = answer(obj)
		}
		response.UID = in.Request.UID
		reply(w, &admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: response})
	})
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	// Ignore the error: callers that do not receive the response retry.
	_ = json.NewEncoder(w).Encode(body)
}

func validate(obj *unstructured.Unstructured) *admissionv1.AdmissionResponse {
	if text := textOf(obj); strings.Contains(strings.ToLower(text), Refused) {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Code: http.StatusForbidden, Message: fmt.Sprintf("a Greeting does not say %s", Refused),
		}}
	}
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// textOf returns the message of a Greeting, in either version of the API, or of a ConfigMap.
func textOf(obj *unstructured.Unstructured) string {
	data, _, _ := unstructured.NestedString(obj.Object, "data", "message")
	v1, _, _ := unstructured.NestedString(obj.Object, "spec", "message")
	v2, _, _ := unstructured.NestedString(obj.Object, "spec", "text")
	return v1 + v2 + data
}

func mutate(version string) func(*unstructured.Unstructured) *admissionv1.AdmissionResponse {
	if version == "" {
		version = "webhook"
	}
	return func(obj *unstructured.Unstructured) *admissionv1.AdmissionResponse {
		type operation struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			Value any    `json:"value"`
		}
		operations := []operation{{"add", "/metadata/labels/" + strings.ReplaceAll(Label, "/", "~1"), version}}
		if obj.GetLabels() == nil {
			operations = []operation{{"add", "/metadata/labels", map[string]string{Label: version}}}
		}
		patch, err := json.Marshal(operations)
		if err != nil {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: err.Error()}}
		}
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: &kind}
	}
}
