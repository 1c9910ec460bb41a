package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	group = "sample.remit.dev"
	v1    = group + "/v1"
	v2    = group + "/v2"
)

// renamed lists the fields of spec whose names differ, as pairs of the names in v1 and v2.
var renamed = [][2]string{{"message", "text"}, {"replicas", "greeters"}}

// convert answers a ConversionReview.
func convert(w http.ResponseWriter, r *http.Request) {
	in := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(in); err != nil || in.Request == nil {
		http.Error(w, "no ConversionReview", http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: in.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range in.Request.Objects {
		obj := &unstructured.Unstructured{}
		err := json.Unmarshal(raw.Raw, &obj.Object)
		if err == nil {
			err = Convert(obj, in.Request.DesiredAPIVersion)
		}
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			response.ConvertedObjects = nil
			break
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: obj})
	}
	reply(w, &apiextensionsv1.ConversionReview{TypeMeta: in.TypeMeta, Response: response})
}

// Convert converts a Greeting to the given version without losing data.
func Convert(obj *unstructured.Unstructured, version string) error {
	from, to := 0, 1
	switch {
	case obj.GetAPIVersion() == version:
		return nil
	case obj.GetAPIVersion() == v1 && version == v2:
	case obj.GetAPIVersion() == v2 && version == v1:
		from, to = 1, 0
	default:
		return fmt.Errorf("cannot convert from %s to %s", obj.GetAPIVersion(), version)
	}
	obj.SetAPIVersion(version)
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return nil
	}
	for _, field := range renamed {
		if value, ok := spec[field[from]]; ok {
			delete(spec, field[from])
			spec[field[to]] = value
		}
	}
	return nil
}
