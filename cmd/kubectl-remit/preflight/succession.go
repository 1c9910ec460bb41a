package preflight

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

// successions returns the additional needs of an upgrade if the cluster has another version of the operator. The
// command cannot determine whether the cluster requires permission to delete an object in order to change its owners,
// so it assumes that the permission is required. The notes list what could not be read. Whoever may write a ClusterServiceVersion
// determines its label and its spec, so only objects that exist and have the label of the lineage are removed.
func (i *input) successions(ctx context.Context) (needs []preflight.Need, notes []string, err error) {
	if i.client == nil {
		return nil, nil, nil
	}
	for _, st := range i.steps {
		if !st.IsCSV() {
			continue
		}
		from, err := i.installed(ctx, st)
		switch {
		case apierrors.IsForbidden(err):
			notes = append(notes, fmt.Sprintf("you are not allowed to list ClusterServiceVersions in namespace %s: additional permissions that an upgrade needs are unknown", i.namespace))
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("list ClusterServiceVersions in namespace %s: %w", i.namespace, err)
		case from == nil:
			continue
		}
		more, err := preflight.Succession{From: from, To: st, Steps: i.steps, Targets: i.targets,
			Owned:     func(s step.Step) bool { return i.examined.owns(ctx, i.client, s.Object, s.Owner.Lineage) },
			HandsOver: func(s step.Step) bool { return i.belongsToAnother(ctx, s) }}.Needs()
		if err != nil {
			return nil, nil, err
		}
		needs = append(needs, more...)
	}
	return needs, notes, nil
}

// installed returns the newest other version of the step's operator in the namespace. It returns nil if there is none
// or if the step's version is already installed.
func (i *input) installed(ctx context.Context, st step.Step) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := i.client.List(ctx, list, client.InNamespace(i.namespace), st.Owner.Marked()); err != nil {
		return nil, err
	}
	var newest *operatorsv1alpha1.ClusterServiceVersion
	for n := range list.Items {
		csv := &list.Items[n]
		if csv.Name == st.Owner.CSV {
			return nil, nil // the same version is installed
		}
		if csv.DeletionTimestamp == nil && (newest == nil || newest.CreationTimestamp.Before(&csv.CreationTimestamp)) {
			newest = csv
		}
	}
	return newest, nil
}

// belongsToAnother reports whether a step's object exists and belongs to another version. An object that cannot be
// read counts as missing.
func (i *input) belongsToAnother(ctx context.Context, st step.Step) bool {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(st.Object.GroupVersionKind())
	err := i.client.Get(ctx, client.ObjectKeyFromObject(st.Object), live)
	return err == nil && st.Owner.Marks(live) && preflight.BelongsToOther(live, st.Owner.CSV) // ownership cannot be verified without the key
}
