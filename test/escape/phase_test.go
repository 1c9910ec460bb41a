package escape

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
)

// declaresBoss returns a CSV that declares the ServiceAccount bossName, which has more permissions than the account,
// and whose operator runs as that ServiceAccount.
func declaresBoss() forge.CSV {
	return csv().Permissions(forge.Entry(bossName, readMaps)).PodSpec(bossName, "serviceAccountName")
}

// statusOf returns a forged status with the given phase and reason.
func statusOf(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) operatorsv1alpha1.ClusterServiceVersionStatus {
	return operatorsv1alpha1.ClusterServiceVersionStatus{Phase: phase, Reason: reason, Message: "forged"}
}

// allPresent returns the forged status of a CSV whose requirements are all met.
func allPresent() operatorsv1alpha1.ClusterServiceVersionStatus {
	out := statusOf(operatorsv1alpha1.CSVPhaseInstallReady, operatorsv1alpha1.CSVReasonRequirementsMet)
	for _, name := range []string{bossName, accountName} {
		out.RequirementStatus = append(out.RequirementStatus, operatorsv1alpha1.RequirementStatus{
			Version: "v1", Kind: "ServiceAccount", Name: name, Status: operatorsv1alpha1.RequirementStatusReasonPresent, Message: "forged"})
	}
	for _, phase := range []operatorsv1alpha1.ClusterServiceVersionPhase{pending, operatorsv1alpha1.CSVPhaseInstallReady,
		operatorsv1alpha1.CSVPhaseInstalling, succeeded} {
		out.Conditions = append(out.Conditions, operatorsv1alpha1.ClusterServiceVersionCondition{Phase: phase, Reason: "forged", Message: "forged"})
	}
	return out
}

// csvAuthor returns a client for a user who may write CSVs and their status and may impersonate the account.
func (s *scene) csvAuthor() client.Client {
	s.T.Helper()
	return s.authorWho(rule("operators.coreos.com", "clusterserviceversions clusterserviceversions/status", "get", "create", "update", "patch"),
		actAs(accountName))
}

// actAs returns a rule that allows impersonating a ServiceAccount.
func actAs(name string) rbacv1.PolicyRule {
	out := rule("", "serviceaccounts", "impersonate")
	out.ResourceNames = []string{name}
	return out
}

// denied asserts that the author check refused a request.
func (s *scene) denied(err error) {
	s.T.Helper()
	require.ErrorContains(s.T, err, "may not impersonate ServiceAccount "+s.Namespace+"/"+accountName)
}

// forge sets the status of a CSV. It retries on conflicts with the controller.
func (s *scene) forge(c client.Client, name string, status operatorsv1alpha1.ClusterServiceVersionStatus) {
	s.T.Helper()
	require.NoError(s.T, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		csv := s.CSV(s.T, name)
		csv.Status = status
		return c.Status().Update(s.T.Context(), csv)
	}))
}

// says returns a row in which an author forges several statuses, one after the other, for a CSV that must not be
// installed.
func says(number, title string, statuses ...operatorsv1alpha1.ClusterServiceVersionStatus) row {
	return row{number: number, title: title, holds: p0(), boss: true, play: func(s *scene) {
		s.group(s.Namespace)
		author := s.csvAuthor()
		require.NoError(s.T, s.apply(author, declaresBoss().Object))
		s.csvSays(pending, collides)
		for range 3 {
			for _, status := range statuses {
				s.forge(author, probeCSV, status)
				s.noDeployments()
			}
		}
	}}
}

func phases() []row {
	const forgedReason = operatorsv1alpha1.ConditionReason("forged")
	return []row{
		says("120", "a CSV that declares a stronger ServiceAccount and claims to be InstallReady",
			statusOf(operatorsv1alpha1.CSVPhaseInstallReady, operatorsv1alpha1.CSVReasonRequirementsMet)),
		says("120a", "a CSV that declares a stronger ServiceAccount and claims to be Installing", statusOf(operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonInstallSuccessful)),
		says("120b", "a CSV that declares a stronger ServiceAccount and claims to have succeeded", statusOf(succeeded, operatorsv1alpha1.CSVReasonInstallSuccessful)),
		says("120c", "a CSV that declares a stronger ServiceAccount and claims to have failed",
			statusOf(failed, operatorsv1alpha1.CSVReasonComponentUnhealthy), statusOf(failed, operatorsv1alpha1.CSVReasonInstallCheckFailed),
			statusOf(failed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry)),
		says("120d", "a CSV that declares a stronger ServiceAccount and claims to be replaced or deleted",
			statusOf(operatorsv1alpha1.CSVPhaseReplacing, operatorsv1alpha1.CSVReasonBeingReplaced), statusOf(operatorsv1alpha1.CSVPhaseDeleting, operatorsv1alpha1.CSVReasonReplaced)),
		says("120e", "a CSV that declares a stronger ServiceAccount and claims that only its certificate is being rotated", statusOf(pending, operatorsv1alpha1.CSVReasonNeedsCertRotation)),
		says("120f", "a CSV that declares a stronger ServiceAccount, with all requirements and conditions forged", allPresent()),
		says("120g", "a CSV that declares a stronger ServiceAccount, in an unknown phase", statusOf("Forged", forgedReason)),
		{number: "121", title: "a CSV that is edited to run as a stronger ServiceAccount while it is Installing", holds: p0(), boss: true, play: func(s *scene) {
			s.enforce("baseline")
			s.group(s.Namespace)
			author := s.csvAuthor()
			require.NoError(s.T, s.apply(author, csv().PodSpec(true, "hostNetwork").Object))
			csv := s.csvSays(operatorsv1alpha1.CSVPhaseInstalling)
			before := csv.DeepCopy()
			strategy := &csv.Spec.InstallStrategy.StrategySpec
			strategy.Permissions = append(strategy.Permissions,
				operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: bossName, Rules: []rbacv1.PolicyRule{rule("", "configmaps", "get")}})
			strategy.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = bossName
			require.NoError(s.T, author.Patch(s.T.Context(), csv, client.MergeFrom(before)))
			s.Eventually(func(c *assert.CollectT) {
				assert.Contains(c, s.CSV(c, probeCSV).Status.Message, bossName)
			})
			s.neverRunsAs(bossName)
			s.forge(author, probeCSV, statusOf(operatorsv1alpha1.CSVPhaseInstalling, operatorsv1alpha1.CSVReasonWaiting))
			s.neverRunsAs(bossName)
		}},
		{number: "123", title: "a CSV written by a user who may not act as the account", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			author := s.author("clusterserviceversions", "get", "create", "update", "patch")
			s.denied(s.apply(author, csv().Object))
			copied := csv().Set(map[string]any{names.LabelCopiedFrom: neighbor}, "metadata", "labels")
			s.labelDenied(s.apply(author, copied.Object))
			s.nothingWritten()

			require.NoError(s.T, s.apply(s.mallory(), csv().Object))
			before := s.csvSays(succeeded)
			after := before.DeepCopy()
			after.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = "evil.example.com/x"
			// The CSV of an author who may use every account has the label, so that either binding may report the denial.
			require.ErrorContains(s.T, author.Patch(s.T.Context(), after, client.MergeFrom(before)), "denied request: user 'author' may not impersonate ")
		}},
		{number: "123a", title: "a CSV that is created before the OperatorGroup", holds: p0(), play: func(s *scene) {
			author := s.author("clusterserviceversions", "get", "create", "update", "patch")
			obj := &unstructured.Unstructured{Object: csv().Object}
			obj.SetNamespace(s.Namespace)
			require.ErrorContains(s.T, author.Create(s.T.Context(), obj), "remit-create-the-operatorgroup-before-the-clusterserviceversion")
			s.group(s.Namespace)
			s.noDeployments()
		}},
		{number: "196", title: "an annotation that names the issuer of an operator's certificates, set by a user who may not act as the account", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			before := s.Succeeded(probeCSV)
			author := s.author("clusterserviceversions", "get", "patch")
			after := before.DeepCopy()
			after.Annotations["cert-manager.io/inject-ca-from"] = s.Namespace + "/evil"
			s.denied(author.Patch(s.T.Context(), after, client.MergeFrom(before)))
		}},
		{number: "122", title: "a version that cannot be installed but claims to have succeeded, with an installed version that it replaces", holds: p0(), boss: true, play: func(s *scene) {
			s.group(s.Namespace)
			author := s.csvAuthor()
			require.NoError(s.T, s.apply(author, csv().Object))
			victim := s.csvSays(succeeded)
			const next = probe + ".v2.0.0"
			require.NoError(s.T, s.apply(author, forge.NewCSV(next).Permissions(forge.Entry(bossName, readMaps)).
				PodSpec(bossName, "serviceAccountName").Set(probeCSV, "spec", "replaces").Object))
			s.csvSays(operatorsv1alpha1.CSVPhaseReplacing)
			for range 3 {
				s.forge(author, next, statusOf(succeeded, operatorsv1alpha1.CSVReasonInstallSuccessful))
				s.settle()
			}
			require.Equal(s.T, victim.UID, s.CSV(s.T, probeCSV).UID)
			s.neverRunsAs(bossName)
		}},
	}
}
