package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

// undo gives namespaces back to OLM. The report is valid even if there is an error.
func (o *Options) undo(ctx context.Context, c client.Client, namespace string) (*Report, error) {
	report := &Report{DryRun: !o.Yes}
	recorded, err := o.recorded(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if len(recorded) == 0 && namespace != metav1.NamespaceAll {
		report.Problems = append(report.Problems, fmt.Sprintf("namespace %s was not adopted: there is no ConfigMap %s/%s", namespace, o.RemitNamespace, recordPrefix+namespace))
	}
	s := &signer{client: c, home: o.RemitNamespace}
	var errs []error // those of one namespace do not prevent that others are given back
	for _, ns := range recorded {
		one, err := s.undo(ctx, ns, o.Yes)
		if one != nil {
			report.Namespaces = append(report.Namespaces, *one)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w; run the command again to complete it", ns, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return report, errors.Join(errs...)
}

// recorded returns the adopted namespaces, sorted.
func (o *Options) recorded(ctx context.Context, c client.Client, namespace string) ([]string, error) {
	var out []string
	err := each(ctx, c, &corev1.ConfigMapList{}, func(cm *corev1.ConfigMap) {
		if name, ok := cutPrefix(cm.Name); ok && (namespace == "" || namespace == name) {
			out = append(out, name)
		}
	}, client.InNamespace(o.RemitNamespace), client.HasLabels{recordLabel})
	slices.Sort(out)
	return out, err
}

func cutPrefix(name string) (string, bool) {
	if len(name) <= len(recordPrefix) || name[:len(recordPrefix)] != recordPrefix {
		return "", false
	}
	return name[len(recordPrefix):], true
}

// undo reverts the adoption of one namespace. It first sets the annotations that leave the namespace to OLM, then restores the
// objects, and deletes the record last.
func (s *signer) undo(ctx context.Context, namespace string, write bool) (*Namespace, error) {
	rec, cm, err := load(ctx, s.client, s.home, namespace)
	if err != nil {
		return nil, err
	}
	out := &Namespace{Name: namespace, ManagedBy: "remit"}
	var managers []client.Object
	for _, r := range rec.Objects {
		live, why, err := s.live(ctx, r)
		if err != nil {
			return out, err
		}
		switch {
		case live == nil:
			out.add(r, Gone, why)
		case r.isUntouched(live):
			out.add(r, Left, "it was not adopted")
		case r.Manager == "":
			managers = append(managers, live)
			out.add(r, Restore, "")
		default:
			out.add(r, Restore, r.kept(live))
		}
	}
	if !write {
		return out, nil
	}
	if err := s.manage(ctx, managers, names.ManagedByOLM); err != nil {
		return out, err
	}
	for i, r := range rec.Objects {
		why, err := s.restoreOrLeave(ctx, r, namespace)
		if err != nil {
			return out, err
		}
		if why != "" {
			out.Objects[i].Verdict, out.Objects[i].Why = Left, why
		}
	}
	out.ManagedBy = names.ManagedByOLM
	out.Notes = append(out.Notes, "start OLM again with kubectl scale deployment. Objects that Remit created since the adoption remain; OLM treats them as its own if they have its labels")
	return out, apply.Delete(ctx, s.client, cm)
}

func (n *Namespace) add(r recordedObject, v Verdict, why string) {
	n.Objects = append(n.Objects, Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Verdict: v, For: r.For, Why: why})
}

// live returns the recorded object, or nil and the reason if it no longer exists.
func (s *signer) live(ctx context.Context, r recordedObject) (*metav1.PartialObjectMetadata, string, error) {
	live := r.reference()
	err := s.client.Get(ctx, client.ObjectKeyFromObject(live), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "it was deleted after the adoption", nil
	case err != nil:
		return nil, "", fmt.Errorf("get %s: %w", apply.Describe(r.reference()), err)
	case live.UID != r.UID:
		return nil, "another object replaced it after the adoption", nil
	}
	live.SetGroupVersionKind(r.reference().GroupVersionKind())
	return live, "", nil
}

// kept describes a label that is not restored because it was changed after the adoption.
func (r recordedObject) kept(live client.Object) string {
	for k, c := range r.Labels {
		if now, exists := live.GetLabels()[k]; !c.is(now, exists) && !c.was(now, exists) {
			return "its label " + k + " was changed after the adoption and is not restored"
		}
	}
	return ""
}

// is and was report whether a value equals the value after and before the adoption, respectively.
func (c change) is(value string, exists bool) bool { return same(c.After, value, exists) }

func (c change) was(value string, exists bool) bool { return same(c.Before, value, exists) }

func same(want *string, value string, exists bool) bool {
	return want == nil && !exists || want != nil && exists && *want == value
}

// isUntouched reports whether an object that was recorded was not signed, for example because the API server refused it.
func (r recordedObject) isUntouched(live client.Object) bool {
	_, proven := live.GetAnnotations()[names.AnnotationProof]
	return r.Manager != "" && !proven && !slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == r.Manager })
}

// restoreOrLeave restores an object. It returns the reason if the object is outside the namespace and the API server refuses to change it.
func (s *signer) restoreOrLeave(ctx context.Context, r recordedObject, namespace string) (why string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.restore(ctx, r) })
	if err != nil && r.Namespace != namespace && preflight.IsAboutObject(err) {
		return unchanged(err), nil
	}
	return "", err
}

// restore restores an object to its state before the adoption.
func (s *signer) restore(ctx context.Context, r recordedObject) error {
	live, _, err := s.live(ctx, r)
	if live == nil || err != nil || r.isUntouched(live) {
		return err
	}
	labels, annotations := map[string]*string{}, map[string]*string{}
	for k, c := range r.Labels {
		if now, exists := live.Labels[k]; c.is(now, exists) && !c.was(now, exists) {
			labels[k] = c.Before
		}
	}
	if _, proven := live.Annotations[names.AnnotationProof]; proven && r.Manager != "" { // Remit may have replaced the proof
		annotations[names.AnnotationProof] = r.Annotations[names.AnnotationProof].Before
	}
	manager := r.Manager
	if manager == "" {
		manager = fieldManager
	}
	if len(labels)+len(annotations) > 0 {
		if err := s.patch(ctx, live, manager, labels, annotations); err != nil {
			return err
		}
	}
	if r.Manager == "" {
		return nil
	}
	return s.setManagedFields(ctx, live, returned(live.ManagedFields, r.Manager, r.ManagedFields))
}
