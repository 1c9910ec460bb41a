package clusterextension

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// probe describes what an object still needs to become available, or returns "" if it is available. known is false if its status
// determines this but was not observed. probe reads only caches.
func (s *run) probe(ctx context.Context, obj *unstructured.Unstructured) (why string, known bool, err error) {
	live, known, err := s.observe(ctx, obj)
	switch {
	case err != nil:
		return "", false, err
	case !known && assess.IsProbed(obj):
		return s.aboutUnknown(obj), false, nil
	case !known:
		return "", true, nil
	case live == nil && (assess.IsProbed(obj) || obj.GetKind() == "CustomResourceDefinition"):
		return fmt.Sprintf("%s does not exist yet", apply.Describe(obj)), true, nil
	case live != nil && isProbed(obj) && s.isOutdated(live, obj):
		return fmt.Sprintf("waiting for the change to %s to be observed", apply.Describe(obj)), true, nil
	}
	why, err = probeLive(live, obj)
	return why, true, err
}

// probeLive is like probe, for an object whose cached state is known.
func probeLive(live client.Object, obj *unstructured.Unstructured) (string, error) {
	switch is := live.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		if !apihelpers.IsCRDConditionTrue(is, apiextensionsv1.Established) {
			return fmt.Sprintf("waiting for %s to be established", apply.Describe(obj)), nil
		}
	case *apiregistrationv1.APIService:
		if ok, why := apiservice.Status(is); !ok {
			return why, nil
		}
	case *unstructured.Unstructured:
		return probeStatus(is, obj)
	}
	return "", nil
}

// isOutdated reports whether a cached object, and therefore its status, is older than what this program last wrote or read.
func (s *run) isOutdated(live client.Object, obj *unstructured.Unstructured) bool {
	pass := s.memory.Get(s.key()).pass
	if pass == nil || pass.marks[apply.Describe(obj)] == nil {
		return false
	}
	is := pass.marks[apply.Describe(obj)]
	// The status does not depend on metadata, whose changes do not increase the generation.
	return versionOf(live) < is.version && (live.GetUID() != is.uid || is.generation == 0 || live.GetGeneration() < is.generation)
}

// aboutUnknown describes why the status of an object is not known.
func (s *run) aboutUnknown(obj *unstructured.Unstructured) string {
	text := fmt.Sprintf("waiting for the status of %s", apply.Describe(obj))
	if _, excess := s.scopes(); slices.Contains(excess, obj) {
		text += "; " + s.aboutExcess(excess)
	}
	return text
}

// probeStatus is like probe, for kinds that are watched as the identity.
func probeStatus(live, desired *unstructured.Unstructured) (string, error) {
	switch desired.GetKind() {
	case "Deployment":
		var is, want appsv1.Deployment
		if err := decodeBoth(live, &is, desired, &want); err != nil {
			return "", err
		}
		if progress := deployment.Status(&is, want.Spec.Replicas); !progress.Ready {
			return progress.Text, nil
		}
	case "PersistentVolumeClaim":
		is := &corev1.PersistentVolumeClaim{}
		if err := apply.Decode(live, is); err != nil {
			return "", err
		}
		if is.Status.Phase != corev1.ClaimBound {
			return fmt.Sprintf("waiting for %s to be bound", apply.Describe(desired)), nil
		}
	case "Job":
		is := &batchv1.Job{}
		if err := apply.Decode(live, is); err != nil {
			return "", err
		}
		if !isComplete(is) {
			return fmt.Sprintf("waiting for %s to complete", apply.Describe(desired)), nil
		}
	}
	return "", nil
}

func decodeBoth(live *unstructured.Unstructured, is any, desired *unstructured.Unstructured, want any) error {
	if err := apply.Decode(live, is); err != nil {
		return err
	}
	return apply.Decode(desired, want)
}

func isComplete(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
