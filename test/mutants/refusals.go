package mutants

// refusals returns the mutants of the rule that an install continues when a policy, a webhook or a quota no longer refuses an object.
func refusals() []Mutant {
	const (
		file      = "pkg/preflight/refusal.go"
		admission = "TestARefusalAtAdmissionIsNoMissingPermission"
	)
	return []Mutant{
		{
			Name: "a-policy-fails-plans-for-good", File: file,
			Old:    "isUnreadable(err) || isMalformed(err) && !IsPolicyNotReady(err)",
			New:    "isUnreadable(err) || apierrors.IsInvalid(err) && !IsPolicyNotReady(err)",
			Killer: unit("pkg/controller/installplan", "TestExecutionsThatFailAreRetried"),
		},
		{
			Name: "a-webhook-that-names-fields-fails-plans-for-good", File: file,
			Old:    "!apierrors.IsInvalid(err) || isByWebhook(err) ||",
			New:    "!apierrors.IsInvalid(err) ||",
			Killer: unit("pkg/preflight", "TestAddDryRun"),
		},
		{
			Name: "webhooks-imitate-the-decoder", File: file,
			Old:    "apierrors.IsBadRequest(err) && !isByWebhook(err) &&",
			New:    "apierrors.IsBadRequest(err) &&",
			Killer: unit("pkg/preflight", admission),
		},
		{
			Name: "a-webhook-with-a-reason-is-undecided", File: file,
			Old:    "metav1.StatusReasonBadRequest && !isByWebhook(err)",
			New:    "metav1.StatusReasonBadRequest",
			Killer: unit("pkg/preflight", "TestAddDryRun"),
		},
		{
			Name: "a-webhook-without-dry-runs-refuses", File: file,
			Old:    `isWebhook && strings.HasPrefix(answer, "denied the request")`,
			New:    `isWebhook && strings.HasPrefix(answer, "")`,
			Killer: unit("pkg/preflight", "TestAddDryRun"),
		},
		{
			Name: "a-webhook-with-another-code-is-no-refusal", File: "pkg/preflight/admission.go",
			Old:    "apierrors.IsNotFound(err) && !isByWebhook(err):",
			New:    "apierrors.IsNotFound(err):",
			Killer: unit("pkg/preflight", admission),
		},
		{
			Name: "a-policy-blocks-extensions", File: "pkg/controller/clusterextension/apply.go",
			Old:    "	case preflight.IsPermanent(err):",
			New:    "	case preflight.IsPermanent(err), preflight.AtAdmission(err) != nil:",
			Killer: unit("pkg/controller/clusterextension", "TestARefusedWriteIsTriedAgain"),
		},
		{
			Name: "a-policy-blocks-deployments-for-good", File: "pkg/controller/csv/next.go",
			Old:    "!apierrors.IsForbidden(err) && preflight.AtAdmission(err) == nil:",
			New:    "!apierrors.IsForbidden(err):",
			Killer: unit("pkg/controller/csv", "TestNextOutOfFailed"),
		},
		{
			Name: "a-refused-role-is-tried-only-in-targets", File: "pkg/controller/csv/next.go",
			Old:    "kit.Is[*apply.DelayedError](err) || preflight.AtAdmission(err) != nil",
			New:    "kit.Is[*apply.DelayedError](err) || preflight.AtAdmission(err) == err && err != nil",
			Killer: unit("pkg/controller/csv", "TestNextInEveryPhase"),
		},
		{
			Name: "a-refused-role-fails-operators-for-good", File: "pkg/controller/csv/phases.go",
			Old:    ".requeueAfter(recheckAfter(f, f.Prepared))",
			New:    "",
			Killer: unit("pkg/controller/csv", "TestNextOutOfFailed"),
		},
	}
}
