package mutants

// self returns the mutants of rule 4: permissions of the controller identities.
func self() []Mutant {
	return []Mutant{
		{
			Name: "controllers-patch-deployments", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old: `  resources: [deployments]
  verbs: [get, list, watch]`,
			New: `  resources: [deployments]
  verbs: [get, list, patch, watch]`,
			Killer: unit("manifests", "TestControllerIdentitiesHaveOnlyTheClosedList"),
		},
		{
			Name: "controllers-read-secrets", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old:    "  resources: [namespaces, serviceaccounts, services]",
			New:    "  resources: [namespaces, secrets, serviceaccounts, services]",
			Killer: unit("manifests", "TestControllerIdentitiesReadNoSecrets"),
		},
		{
			Name: "controllers-request-tokens-of-any-account", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old: `- apiGroups: [authorization.k8s.io]
`,
			New: `- apiGroups: [""]
  resources: [serviceaccounts/token]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
`,
			Killer: unit("manifests", "TestControllerIdentitiesHaveOnlyTheClosedList"),
		},
		{
			Name: "controllers-write-any-status", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old: `  - operatorgroups/status
`,
			New: `  - operatorgroups/status
  - "*"
`,
			Killer: unit("manifests", "TestControllerIdentitiesHaveOnlyTheClosedList"),
		},
		{
			Name: "controllers-change-operatorconditions", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old:    "  resources: [operatorconditions]\n  verbs: [create]",
			New:    "  resources: [operatorconditions]\n  verbs: [create, patch]",
			Killer: unit("manifests", "TestControllerIdentitiesHaveOnlyTheClosedList"),
		},
		{
			Name: "controllers-change-operators", Rule: 4, File: "manifests/base/olm-rbac.yaml",
			Old:    "  resources: [operators]\n  verbs: [create, delete]",
			New:    "  resources: [operators]\n  verbs: [create, delete, patch]",
			Killer: unit("manifests", "TestControllerIdentitiesHaveOnlyTheClosedList"),
		},
		{
			Name: "finalizer-policy-audits", Rule: 4, File: "manifests/policy/finalizers.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "finalizer-policy-fails-open", Rule: 4, File: "manifests/policy/finalizers.yaml",
			Old:    "failurePolicy: Fail",
			New:    "failurePolicy: Ignore",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "registries-policy-audits", Rule: 4, File: "manifests/policy/registries.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "reports-policy-audits", Rule: 4, File: "manifests/policy/reports.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "policies-are-not-checked", Rule: 4, File: "manifests/policy/check.go",
			Old:    "withDefaults(policy.Spec), withDefaults(live.Spec)",
			New:    "withDefaults(policy.Spec), withDefaults(policy.Spec)",
			Killer: unit("manifests/policy", "TestNamesWeakerPolicies"),
		},
		{
			Name: "bindings-of-policies-are-not-checked", Rule: 4, File: "manifests/policy/check.go",
			Old:    "boundWithDefaults(live.Spec)",
			New:    "boundWithDefaults(binding.Spec)",
			Killer: unit("manifests/policy", "TestNamesWeakerPolicies"),
		},
		{
			Name: "missing-policies-pass", Rule: 4, File: "manifests/policy/check.go",
			Old:    `		return fmt.Errorf("%s %s does not exist", kind, name)`,
			New:    "		return nil",
			Killer: unit("manifests/policy", "TestRequiresEachPolicyAndBinding"),
		},
		{
			Name: "events-policy-audits", Rule: 4, File: "manifests/policy/events.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "extension-events-policy-audits", Rule: 4, File: "manifests/extensions/policy/events.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "extension-labels-policy-audits", Rule: 4, File: "manifests/extensions/policy/labels.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "extension-reports-policy-audits", Rule: 4, File: "manifests/extensions/policy/reports.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: unit("manifests", "TestEveryPolicyDenies"),
		},
		{
			Name: "controllers-impersonate-any-user", Rule: 5, File: "manifests/extensions/rbac.yaml",
			Old: `# Status.
`,
			New: `- apiGroups: [""]
  resources: [users]
  verbs: [impersonate]
# Status.
`,
			Killer: unit("manifests", "TestOnlyCompatAllowsImpersonation"),
		},
		{
			Name: "extension-finalizers-policy-audits", Rule: 4, File: "manifests/extensions/policy/finalizers.yaml",
			Old:    "validationActions: [Deny]",
			New:    "validationActions: [Audit]",
			Killer: row("180d"),
		},
		{
			Name: "extension-program-requests-tokens-of-any-account", Rule: 4, File: "manifests/extensions/rbac.yaml",
			Old: `# Status.
`,
			New: `- apiGroups: [""]
  resources: [serviceaccounts/token]
  verbs: [create]
# Status.
`,
			Killer: row("180e"),
		},
	}
}
