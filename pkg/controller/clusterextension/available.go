package clusterextension

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// The condition Available never outlives what it is based on: what this program has not observed since it started, or cannot
// observe any longer, is Unknown (docs/adr/0073).

// allAvailable is the message of the condition Available if it is True.
const allAvailable = "All objects are available"

// isProbed reports whether the availability of an object determines the condition Available.
func isProbed(obj *unstructured.Unstructured) bool {
	kind := obj.GetKind()
	return assess.IsProbed(obj) || kind == "CustomResourceDefinition" || kind == "APIService"
}

// rememberProbed records the objects of the installed version, so that they are observed while another version is pending or no
// version can be determined.
func (s *run) rememberProbed() {
	var objs []*unstructured.Unstructured
	for _, st := range s.steps {
		if isProbed(st.Object) {
			objs = append(objs, probeOf(st.Object))
		}
	}
	s.memory.Change(s.key(), func(is *remembered) {
		if is.probedFor != s.hash || len(is.probed) != len(objs) {
			is.probedFor, is.probed = s.hash, objs
		}
	})
}

// probeOf returns what is remembered of an object: its name and what probe compares, because an object can be large.
func probeOf(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := apply.Reference(obj.GroupVersionKind(), obj.GetNamespace(), obj.GetName())
	if replicas, ok, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "replicas"); ok && isDeployment(obj) {
		out.Object["spec"] = map[string]any{"replicas": replicas}
	}
	return out
}

// probedElsewhere returns the remembered objects of the installed version that are not among the objects to watch.
func (s *run) probedElsewhere(objs []watched) []*unstructured.Unstructured {
	claimed := map[string]bool{}
	for _, obj := range objs {
		claimed[keyOf(obj)] = true
	}
	var out []*unstructured.Unstructured
	for _, obj := range s.memory.Get(s.key()).probed {
		if len(objs)+len(out) < maxWatches && !claimed[keyOf(obj)] && watchedByController(obj) == nil && s.mayWatch(obj) {
			out = append(out, obj)
		}
	}
	return out
}

// observeInstalled determines the condition Available for a run that ended before it did: from the caches, for the objects of
// the installed version.
func (s *run) observeInstalled(ctx context.Context) {
	if s.available != nil || s.ext.Status.Install == nil {
		return
	}
	is := s.memory.Get(s.key())
	if is.probedFor == "" {
		s.available = unobserved(cmp.Or(s.unobserved, "the objects of the installed version have not been observed since the program started"))
		return
	}
	for _, obj := range is.probed {
		why, known, err := s.probe(ctx, obj)
		switch {
		case err != nil:
			s.available = unobserved(apply.Describe(obj) + ": " + err.Error())
			return
		case !known:
			s.available = unobserved(why)
			return
		case why != "":
			s.available = &metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonRollingOut, Message: status.Text(why)}
			return
		}
	}
	s.available = &metav1.Condition{Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, Message: allAvailable}
}

func unobserved(why string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionUnknown, Reason: olmv1.ReasonNotObserved, Message: status.Text(why)}
}
