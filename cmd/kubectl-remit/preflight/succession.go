package preflight

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// successions are what it needs besides where a version of the operator is installed already. That the cluster lets only those
// change the owners of an object who may delete it cannot be seen from here, and is assumed. The notes say what could not be read.
func (a *about) successions(ctx context.Context) (needs []preflight.Need, notes []string, err error) {
	if a.client == nil {
		return nil, nil, nil
	}
	for _, st := range a.steps {
		if !st.IsCSV() {
			continue
		}
		from, err := a.installed(ctx, st)
		switch {
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("you may not list ClusterServiceVersions of namespace %s: what an upgrade of an installed version needs besides is not known", a.namespace))
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("list ClusterServiceVersions of namespace %s: %w", a.namespace, err)
		case from == nil:
			continue
		}
		more, err := preflight.Succession{From: from, To: st, Steps: a.steps, Targets: a.targets,
			HandsOver: func(s step.Step) bool { return a.belongsToAnother(ctx, s) }}.Needs()
		if err != nil {
			return nil, nil, err
		}
		needs = append(needs, more...)
	}
	return needs, notes, nil
}

// installed is the newest other version of the step's operator in the namespace; nil where there is none.
func (a *about) installed(ctx context.Context, st step.Step) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := a.client.List(ctx, list, client.InNamespace(a.namespace), client.MatchingLabels{names.LabelLineage: st.Owner.Mark()}); err != nil {
		return nil, err
	}
	var newest *operatorsv1alpha1.ClusterServiceVersion
	for i := range list.Items {
		csv := &list.Items[i]
		if csv.Name == st.Owner.CSV {
			return nil, nil // this very version is there
		}
		if csv.DeletionTimestamp == nil && (newest == nil || newest.CreationTimestamp.Before(&csv.CreationTimestamp)) {
			newest = csv
		}
	}
	return newest, nil
}

// belongsToAnother says whether a step's object is there and another version's. One that may not be read counts as not there.
func (a *about) belongsToAnother(ctx context.Context, st step.Step) bool {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(st.Object.GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(st.Object), live)
	return err == nil && st.Owner.Marks(live) && preflight.BelongsToOther(live, st.Owner.CSV) // no key here proves ownership
}
