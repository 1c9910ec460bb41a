package adopt

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxPrograms is the maximum number of Deployments with the name of one of OLM's programs whose permissions are checked,
// because any user can create such a Deployment.
const maxPrograms = 1000

// programs returns the names of OLM's programs that write the objects of operators.
func programs() []string { return []string{"olm-operator", "catalog-operator"} }

// gatherPrograms finds OLM's own Deployments. While one of them has replicas, OLM may write the same objects.
func (w *world) gatherPrograms(ctx context.Context, c client.Client, _ string) error {
	for _, name := range programs() {
		checked := 0
		err := each(ctx, c, &appsv1.DeploymentList{}, func(d *appsv1.Deployment) {
			if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.Replicas == 0 {
				return
			}
			if checked++; checked > maxPrograms {
				return
			}
			if problem := running(ctx, c, d); problem != "" {
				w.problems = append(w.problems, problem)
			}
		}, client.MatchingFields{"metadata.name": name})
		if err != nil {
			return err
		}
		if checked > maxPrograms {
			w.problems = append(w.problems, fmt.Sprintf("whether OLM is running cannot be determined: the cluster has more than %d Deployments named %s with replicas", maxPrograms, name))
		}
	}
	return nil
}

// running returns the reason why a Deployment with the name of one of OLM's programs prevents any write, or "". Only an
// administrator can grant a ServiceAccount what OLM needs: permission to write the ClusterServiceVersions of all namespaces. A
// tenant's Deployment with the same name therefore does not prevent writes. If the check fails, the Deployment counts as OLM's.
func running(ctx context.Context, c client.Client, d *appsv1.Deployment) string {
	account := rbac.ServiceAccount(d.Namespace, deployment.ServiceAccountName(&d.Spec.Template.Spec))
	writes := rbacv1.PolicyRule{APIGroups: []string{operatorsv1alpha1.GroupName}, Resources: []string{"clusterserviceversions"}, Verbs: []string{"update"}}
	isOLM, err := preflight.Reviews(c)(ctx, account, rbac.ClusterScope, writes)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("permission to create SubjectAccessReviews is required to determine whether Deployment %s/%s belongs to OLM: %v", d.Namespace, d.Name, err)
	case err != nil:
		return fmt.Sprintf("whether Deployment %s/%s belongs to OLM cannot be determined: %v", d.Namespace, d.Name, err)
	case !isOLM:
		return ""
	}
	return fmt.Sprintf("OLM is running: Deployment %s/%s has replicas; to stop it: kubectl scale deployment %s -n %s --replicas=0", d.Namespace, d.Name, d.Name, d.Namespace)
}
