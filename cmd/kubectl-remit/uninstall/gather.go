package uninstall

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	stepcrd "github.com/remit-olm/remit/pkg/step/crd"
)

const (
	// pageSize is the number of objects per list request.
	pageSize = 500
	// maxNamed is the maximum number of objects that a message names.
	maxNamed = 3
)

// install is the operator of a Subscription.
type install struct {
	client       client.Client
	lineage      ownerutil.Lineage
	subscription *operatorsv1alpha1.Subscription
	csvs         []*operatorsv1alpha1.ClusterServiceVersion
	// crds contains the CustomResourceDefinitions to delete, and custom contains the objects of their kinds to delete
	// first.
	crds   []*apiextensionsv1.CustomResourceDefinition
	custom []*metav1.PartialObjectMetadata
	notes  []string
	// refusals are reasons not to delete anything.
	refusals []string
}

// gather reads the Subscription and the ClusterServiceVersions of its package in its namespace. It selects them by the
// label of their lineage rather than by the Subscription's status, which may name another ClusterServiceVersion.
func gather(ctx context.Context, c client.Client, key client.ObjectKey) (*install, error) {
	i := &install{client: c, subscription: &operatorsv1alpha1.Subscription{}}
	if err := c.Get(ctx, key, i.subscription); err != nil {
		return nil, err
	}
	if i.subscription.Spec == nil {
		return nil, fmt.Errorf("Subscription %s has no spec", key)
	}
	i.lineage = ownerutil.Lineage{Package: i.subscription.Spec.Package, Namespace: key.Namespace}
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := c.List(ctx, csvs, client.InNamespace(key.Namespace), i.lineage.Marked()); err != nil {
		return nil, err
	}
	for n := range csvs.Items {
		if csvs.Items[n].Labels[names.LabelCopiedFrom] == "" {
			i.csvs = append(i.csvs, &csvs.Items[n])
		}
	}
	return i, i.noteOthers(ctx)
}

// noteOthers notes objects that are not deleted although they are related to the Subscription: an installed version of
// another lineage, and the Subscriptions of dependencies.
func (i *install) noteOthers(ctx context.Context) error {
	if named := i.subscription.Status.InstalledCSV; named != "" && !i.has(named) {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		err := i.client.Get(ctx, client.ObjectKey{Namespace: i.lineage.Namespace, Name: named}, csv)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			i.notes = append(i.notes, fmt.Sprintf("ClusterServiceVersion %s was not created for %s and is not deleted", named, i.lineage))
		}
	}
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := i.client.List(ctx, subs, client.InNamespace(i.lineage.Namespace)); err != nil {
		return err
	}
	for _, s := range subs.Items {
		switch {
		case s.UID == i.subscription.UID || s.Spec == nil:
		case s.Spec.Package == i.lineage.Package:
			i.refusals = append(i.refusals, fmt.Sprintf("Subscription %s is for the same package, so the operator would be installed again: delete it first", s.Name))
		case s.Annotations[names.AnnotationGeneratedBy] == i.subscription.Name:
			i.notes = append(i.notes, fmt.Sprintf("Subscription %s was created as a dependency of %s and is not deleted", s.Name, i.subscription.Name))
		}
	}
	return nil
}

func (i *install) has(csv string) bool {
	return slices.ContainsFunc(i.csvs, func(c *operatorsv1alpha1.ClusterServiceVersion) bool { return c.Name == csv })
}

// owned returns the names of the CustomResourceDefinitions that the ClusterServiceVersions own.
func (i *install) owned() []string {
	set := map[string]bool{}
	for _, csv := range i.csvs {
		for _, d := range csv.Spec.CustomResourceDefinitions.Owned {
			set[d.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// gatherCRDs determines the CustomResourceDefinitions to delete: those that the operator owns and that have the labels of its
// lineage. It refuses if another ClusterServiceVersion needs one of them or if objects of its kind exist. If custom is true, it
// adds these objects to the objects to delete instead of refusing.
func (i *install) gatherCRDs(ctx context.Context, custom bool) error {
	for _, name := range i.owned() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := i.client.Get(ctx, client.ObjectKey{Name: name}, crd)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return err
		case !i.lineage.Marks(crd):
			i.notes = append(i.notes, fmt.Sprintf("CustomResourceDefinition %s was not created for %s and is not deleted", name, i.lineage))
			continue
		}
		i.crds = append(i.crds, crd)
		if err := i.checkObjects(ctx, crd, custom, ". Delete them first, or use --delete-custom-resources"); err != nil {
			return err
		}
	}
	if len(i.crds) == 0 {
		return nil
	}
	return i.checkUsers(ctx)
}

// checkObjects refuses if objects of the kind exist or, if custom is true, adds them to the objects to delete. advice ends the refusal.
func (i *install) checkObjects(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, custom bool, advice string) error {
	gvk, isServed, err := stepcrd.KindOf(i.client.RESTMapper(), crd, servedVersion(crd))
	switch {
	case err != nil:
		return err
	case !isServed && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		i.refusals = append(i.refusals, fmt.Sprintf("whether objects of CustomResourceDefinition %s exist is not known: another definition has its kind", crd.Name))
		return nil
	case !isServed:
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List")) // "List" is removed from any kind
	var found []string
	for {
		if err := i.client.List(ctx, list, client.Limit(pageSize), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list objects of CustomResourceDefinition %s: %w", crd.Name, err)
		}
		for n := range list.Items {
			obj := list.Items[n].DeepCopy()
			obj.SetGroupVersionKind(gvk)
			found = append(found, strings.TrimPrefix(obj.Namespace+"/"+obj.Name, "/"))
			if custom {
				i.custom = append(i.custom, obj)
			}
		}
		if list.Continue == "" || !custom {
			break
		}
	}
	if len(found) > 0 && !custom {
		i.refusals = append(i.refusals, fmt.Sprintf("objects of CustomResourceDefinition %s exist: %s", crd.Name, firstOf(found))+advice)
	}
	return nil
}

// servedVersion returns a version that a CustomResourceDefinition serves.
func servedVersion(crd *apiextensionsv1.CustomResourceDefinition) (version string) {
	for _, v := range crd.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	return version
}

// firstOf lists the first names and indicates whether there are more.
func firstOf(all []string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and more", strings.Join(all[:maxNamed], ", "))
}

// checkUsers refuses if a ClusterServiceVersion that is not deleted owns or requires one of the kinds. Copies of the
// ClusterServiceVersions that are deleted do not count.
func (i *install) checkUsers(ctx context.Context) error {
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	for {
		if err := i.client.List(ctx, csvs, client.Limit(pageSize), client.Continue(csvs.Continue)); err != nil {
			return fmt.Errorf("determine whether other operators need the CustomResourceDefinitions: %w", err)
		}
		for n := range csvs.Items {
			i.checkUser(&csvs.Items[n])
		}
		if csvs.Continue == "" {
			return nil
		}
	}
}

func (i *install) checkUser(csv *operatorsv1alpha1.ClusterServiceVersion) {
	from := csv.Labels[names.LabelCopiedFrom]
	if i.has(csv.Name) && (csv.Namespace == i.lineage.Namespace || from == i.lineage.Namespace) {
		return
	}
	for _, d := range slices.Concat(csv.Spec.CustomResourceDefinitions.Owned, csv.Spec.CustomResourceDefinitions.Required) {
		if slices.ContainsFunc(i.crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == d.Name }) {
			i.refusals = append(i.refusals, fmt.Sprintf("ClusterServiceVersion %s/%s needs CustomResourceDefinition %s", csv.Namespace, csv.Name, d.Name))
		}
	}
}
