package controller

import (
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/controller/operator"
	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/compact"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Caches contain only what controllers read, because their memory grows with the number of namespaces. Removing a field is safe
// only if no controller of the program reads it from the cache, and if each write that begins with a cached object sends the
// difference between two states of that object (status.Patch, client.MergeFrom), or the fields that it owns (server-side apply).
// Such writes do not change fields that both states lack.

// transform returns a function that informers call with each object before it enters a cache.
func transform(trim func(client.Object)) toolscache.TransformFunc {
	if trim == nil {
		trim = Trim
	}
	shared, unchanged := &compact.Strings{}, &rbac.Unchanged{}
	return func(received any) (any, error) {
		if obj, ok := received.(client.Object); ok {
			trim(obj)
			restore := unchanged.Take(obj)
			reduce(obj)
			shared.Compact(obj)
			restore()
		}
		return received, nil
	}
}

// Trim removes what no program reads from its cache: managed fields and the copy of an object that "kubectl apply" adds to it, the
// schemas of CustomResourceDefinitions, the Secrets that ServiceAccounts list, the bundle content in InstallPlans, the manifests in the
// status of complete ones, and all but the first entries of lists that are longer than Remit accepts or reads.
func Trim(obj client.Object) {
	obj.SetManagedFields(nil)
	if annotations := obj.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		obj.SetAnnotations(annotations)
	}
	trimMetadata(obj)
	trimLists(obj)
	switch o := obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		for i := range o.Spec.Versions {
			o.Spec.Versions[i].Schema = nil
		}
	case *operatorsv1alpha1.ClusterServiceVersion:
		defined, served := &o.Spec.CustomResourceDefinitions, &o.Spec.APIServiceDefinitions
		defined.Owned, defined.Required = first(defined.Owned), first(defined.Required)
		served.Owned, served.Required = first(served.Owned), first(served.Required)
		o.Spec.WebhookDefinitions = atMost(webhook.MaxDescriptions+1, o.Spec.WebhookDefinitions)
		strategy := &o.Spec.InstallStrategy.StrategySpec
		strategy.Permissions = atMost(bundle.MaxPermissions+1, strategy.Permissions)
		strategy.ClusterPermissions = atMost(bundle.MaxPermissions+1, strategy.ClusterPermissions)
	case *operatorsv1alpha1.InstallPlan:
		delete(o.Annotations, names.AnnotationContent)
		if o.Status.Phase != operatorsv1alpha1.InstallPlanPhaseComplete {
			return // its status is patched by comparison with the cached one
		}
		for _, step := range o.Status.Plan {
			if step != nil {
				step.Resource.Manifest = ""
			}
		}
	}
}

// TrimForCatalog removes what cmd/catalog does not read from its cache. Only cmd/olm uses the status of OperatorGroups, and
// writes that of ClusterServiceVersions.
func TrimForCatalog(obj client.Object) {
	Trim(obj)
	switch o := obj.(type) {
	case *operatorsv1.OperatorGroup:
		o.Status = operatorsv1.OperatorGroupStatus{}
	case *operatorsv1alpha1.ClusterServiceVersion:
		trimDisplay(o)
		trimDeployments(o)
		trimHistory(&o.Status)
	case *appsv1.Deployment:
		trimDeployment(o)
	}
}

// TrimForOLM removes what cmd/olm does not read from its cache. Only cmd/catalog uses the contents and steps of InstallPlans. The
// program needs complete ClusterServiceVersions, because copies contain everything.
func TrimForOLM(obj client.Object) {
	switch o := obj.(type) {
	case *operatorsv1.Operator:
		operator.Trim(o)
		trimLists(o)
		return
	case *operatorsv1alpha1.InstallPlan:
		delete(o.Annotations, names.AnnotationPlan)
		o.Status.Plan, o.Status.BundleLookups, o.Status.CatalogSources = nil, nil, nil
	case *operatorsv1alpha1.Subscription:
		o.Status.CatalogHealth = nil
	case *corev1.ServiceAccount:
		o.ImagePullSecrets = nil
	case *appsv1.Deployment:
		trimDeployment(o)
	}
	Trim(obj)
}

// trimDisplay removes what describes an operator for users and consoles. The content of bundles, from which PackageManifests are
// made, is not in the cache.
func trimDisplay(csv *operatorsv1alpha1.ClusterServiceVersion) {
	spec := &csv.Spec
	spec.DisplayName, spec.Description, spec.Maturity, spec.Provider = "", "", "", operatorsv1alpha1.AppLink{}
	spec.Keywords, spec.Maintainers, spec.Links, spec.Icon, spec.RelatedImages = nil, nil, nil, nil, nil
	for _, list := range [][]operatorsv1alpha1.CRDDescription{spec.CustomResourceDefinitions.Owned, spec.CustomResourceDefinitions.Required} {
		for i, d := range list {
			list[i] = operatorsv1alpha1.CRDDescription{Name: d.Name, Version: d.Version, Kind: d.Kind}
		}
	}
	for _, list := range [][]operatorsv1alpha1.APIServiceDescription{spec.APIServiceDefinitions.Owned, spec.APIServiceDefinitions.Required} {
		for i, d := range list {
			list[i] = operatorsv1alpha1.APIServiceDescription{
				Name: d.Name, Group: d.Group, Version: d.Version, Kind: d.Kind, DeploymentName: d.DeploymentName, ContainerPort: d.ContainerPort,
			}
		}
	}
	maps.DeleteFunc(csv.Annotations, func(key, _ string) bool { return isDisplay(key) })
}

// first returns the entries of a list of APIs that caches keep: enough for bundle.ValidateCSV to refuse it.
func first[T any](list []T) []T { return atMost(bundle.MaxOwned+1, list) }

// isDisplay reports whether an annotation of a ClusterServiceVersion describes the operator: its key has no domain, such as
// alm-examples and description, or that of consoles and the operator framework.
func isDisplay(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return !strings.HasPrefix(key, "olm.")
	}
	display := domain == "operatorframework.io" || strings.HasSuffix(domain, ".operatorframework.io") ||
		domain == "console.openshift.io" || domain == "operators.openshift.io" || strings.HasSuffix(domain, ".operators.openshift.io")
	return display && key != names.AnnotationProperties
}

// trimDeployments keeps, of the Deployments of a ClusterServiceVersion, what determines which objects an upgrade replaces or
// removes: their names, the labels of their Pods, and their ServiceAccounts.
func trimDeployments(csv *operatorsv1alpha1.ClusterServiceVersion) {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		was := &specs[i].Spec
		specs[i].Spec = appsv1.DeploymentSpec{Selector: was.Selector, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: was.Template.Labels},
			Spec: corev1.PodSpec{
				ServiceAccountName: was.Template.Spec.ServiceAccountName, DeprecatedServiceAccount: was.Template.Spec.DeprecatedServiceAccount,
			},
		}}
	}
}

// trimHistory keeps, of the phases of a ClusterServiceVersion, whether it has ever succeeded, and of its requirements, those that
// list permissions that the account is missing.
func trimHistory(s *operatorsv1alpha1.ClusterServiceVersionStatus) {
	succeeded := slices.ContainsFunc(s.Conditions, func(c operatorsv1alpha1.ClusterServiceVersionCondition) bool {
		return c.Phase == operatorsv1alpha1.CSVPhaseSucceeded
	})
	if s.Conditions = nil; succeeded {
		s.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: operatorsv1alpha1.CSVPhaseSucceeded}}
	}
	s.RequirementStatus = slices.DeleteFunc(s.RequirementStatus, func(r operatorsv1alpha1.RequirementStatus) bool { return !install.IsExcess(r) })
	for i := range s.RequirementStatus {
		s.RequirementStatus[i].Dependents = nil
	}
}

// trimDeployment keeps, of a Deployment's spec, what is compared with a ClusterServiceVersion: the annotations of its Pods, the
// images of its containers and its replicas. Everything else is compared by the hash in a label.
func trimDeployment(d *appsv1.Deployment) {
	d.Spec = appsv1.DeploymentSpec{Replicas: d.Spec.Replicas, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: podAnnotations(d.Spec.Template.Annotations)},
		Spec:       corev1.PodSpec{InitContainers: images(d.Spec.Template.Spec.InitContainers), Containers: images(d.Spec.Template.Spec.Containers)},
	}}
}

// podAnnotations returns the annotations of Pods that record what they were created for: the targets, and the CA of their
// certificate. The other annotations include copies of the ClusterServiceVersion's.
func podAnnotations(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{names.AnnotationTargetNamespaces, names.AnnotationCAHash} {
		if value, ok := all[key]; ok {
			out[key] = value
		}
	}
	return out
}

func images(containers []corev1.Container) []corev1.Container {
	containers = containers[:min(len(containers), maxContainers)]
	out := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		out = append(out, corev1.Container{Name: containers[i].Name, Image: containers[i].Image})
	}
	return out
}
