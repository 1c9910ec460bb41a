package assess

import (
	"cmp"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// Identity returns the identity that a ClusterExtension is installed as, according to its spec. The result does not contain the
// UID of a ServiceAccount.
func Identity(ext *olmv1.ClusterExtension) scoped.Identity {
	if name := ext.Spec.ServiceAccount.Name; name != "" {
		return scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: ext.Spec.Namespace, Name: name})
	}
	return scoped.Identity{Extension: ext.Name}
}

// Request returns the request for a bundle. It fails if the spec is invalid in a way that the API server accepts.
func Request(ext *olmv1.ClusterExtension) (resolve.Request, error) {
	from := ext.Spec.Source.Catalog
	if from == nil {
		return resolve.Request{}, errors.New("spec.source.catalog is required")
	}
	out := resolve.Request{
		Package: from.PackageName, Versions: from.Version, Channels: from.Channels,
		Policy: resolve.Policy(cmp.Or(from.UpgradeConstraintPolicy, olmv1.UpgradeConstraintPolicyCatalogProvided)),
	}
	if from.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		if err != nil {
			return out, fmt.Errorf("spec.source.catalog.selector: %w", err)
		}
		out.Selector = selector
	}
	if is := ext.Status.Install; is != nil {
		out.Installed = &resolve.Installed{Name: is.Bundle.Name, Version: is.Bundle.Version}
	}
	return out, nil
}

// Owner returns the owner of the objects that the ClusterExtension installs from a bundle, without Proofs. Without a UID,
// Render returns objects without owner references.
func Owner(ext *olmv1.ClusterExtension, bundle string) ownerutil.Owner {
	pkg := ""
	if from := ext.Spec.Source.Catalog; from != nil {
		pkg = from.PackageName
	}
	return ownerutil.Owner{
		Lineage: ownerutil.Lineage{Package: pkg, Namespace: ext.Spec.Namespace, Extension: ext.Name},
		CSV:     bundle, UID: ext.UID, Since: ext.CreationTimestamp.Time,
	}
}

// Config parses spec.config. The error is a *render.ConfigError.
func Config(ext *olmv1.ClusterExtension) (render.Config, error) {
	if c := ext.Spec.Config; c != nil && c.Inline != nil {
		return render.ParseConfig(c.Inline.Raw)
	}
	return render.Config{}, nil
}

// Steps returns the rendered objects as steps. The first step contains the warnings of the bundle.
func Steps(r *render.Rendered, owner ownerutil.Owner) []step.Step {
	out := make([]step.Step, 0, len(r.Objects))
	for _, o := range r.Objects {
		out = append(out, step.Step{Object: o.Unstructured, Owner: owner, Dropped: o.Dropped})
	}
	if len(out) > 0 {
		out[0].Warnings = r.Warnings
	}
	return out
}

// Needs returns the permissions that installing, maintaining and removing the objects requires. rulesOf resolves existing
// roles.
func Needs(r *render.Rendered, steps []step.Step, rulesOf rbac.RoleRules) ([]preflight.Need, error) {
	needs, err := preflight.NeedsOf(steps, rulesOf, func(step.Step) bool { return false })
	if err != nil {
		return nil, err
	}
	needs = append(needs, r.Hooks.Demands()...)
	for _, secret := range r.Hooks.IssuedSecrets() { // cert-manager can write any Secret, but the identity must be allowed to write this one
		needs = append(needs, hooks.Request(secret, "let cert-manager write "+apply.Describe(secret), apply.Verbs()...))
	}
	for _, s := range steps {
		if IsProbed(s.Object) {
			needs = append(needs, hooks.Request(s.Object, "wait until "+apply.Describe(s.Object)+" is available", "list", "watch"))
		}
	}
	return needs, nil
}

// IsProbed reports whether an install waits for the status of an object that the controller identity does not watch.
func IsProbed(obj *unstructured.Unstructured) bool {
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}, schema.GroupKind{Kind: "PersistentVolumeClaim"},
		schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}:
		return true
	}
	return false
}

// Removal returns the need to remove an object of an earlier version that this version does not contain.
func Removal(obj *unstructured.Unstructured, version string) preflight.Need {
	return hooks.Request(obj, fmt.Sprintf("remove %s, which version %s does not contain", apply.Describe(obj), version), "get", "delete")
}

// ResetNeed returns the need to remove the conversion webhook from a CustomResourceDefinition because this version does not
// serve the webhook.
func ResetNeed(crd, version string) preflight.Need {
	obj := apply.Reference(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", crd)
	return hooks.Request(obj, fmt.Sprintf("reset the conversion of %s, because bundle version %s does not serve its webhook", apply.Describe(obj), version), "patch")
}

// AnnotationKeepCRDs on a ClusterExtension, with the value "true", keeps its CustomResourceDefinitions, and therefore the
// objects of its APIs, when it is deleted.
const AnnotationKeepCRDs = "olm.operatorframework.io/keep-crds"

// KeepsCRDs reports whether CustomResourceDefinitions are kept when the ClusterExtension is deleted.
func KeepsCRDs(ext *olmv1.ClusterExtension) bool {
	return ext.Annotations[AnnotationKeepCRDs] == "true"
}

// StopNeeds returns the needs to stop the operator before the conversions of kept CustomResourceDefinitions are reset. They are
// optional: if the identity does not have these permissions, the conversions are not reset.
func StopNeeds(ext *olmv1.ClusterExtension, r *render.Rendered) []preflight.Need {
	if !KeepsCRDs(ext) || len(r.Hooks.Conversions()) == 0 {
		return nil
	}
	var needs []preflight.Need
	for _, o := range r.Objects {
		switch o.GetKind() {
		case "Deployment", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService":
			cause := fmt.Sprintf("remove %s before resetting the conversions of kept CustomResourceDefinitions", apply.Describe(o))
			needs = append(needs, hooks.Request(o.Unstructured, cause, "get", "delete"))
		}
	}
	return needs
}

// StopNotes describes the permissions of StopNeeds that are missing. The deletion does not wait for these permissions: without
// them, a Warning event reports that the conversions of the kept CustomResourceDefinitions were not reset.
func StopNotes(identity scoped.Identity, ext *olmv1.ClusterExtension, r *render.Rendered, permissionsIn func(namespace string) rbac.Permissions) []string {
	var out []string
	for _, f := range preflight.Examine(identity, StopNeeds(ext, r), permissionsIn).Findings {
		where := ""
		if f.Namespace != "" {
			where = " in namespace " + f.Namespace
		}
		for _, rule := range f.Missing {
			out = append(out, "optional: "+f.Cause+" requires"+where+": "+rbac.Line(rule))
		}
	}
	return out
}

// IsStrict reports whether existing objects are validated against changed CustomResourceDefinitions.
func IsStrict(ext *olmv1.ClusterExtension) bool {
	in := ext.Spec.Install
	return in == nil || in.Preflight == nil || in.Preflight.CRDUpgradeSafety == nil ||
		in.Preflight.CRDUpgradeSafety.Enforcement != olmv1.CRDUpgradeSafetyEnforcementNone
}

// Required reports all permissions that an install and the additional needs (more) require. It assumes that the identity has no
// permissions and that none of the roles exist.
func Required(identity scoped.Identity, r *render.Rendered, steps []step.Step, more ...preflight.Need) (preflight.Report, error) {
	needs, err := Needs(r, steps, func(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
		return nil, apierrors.NewNotFound(rbacv1.Resource(ref.Kind), ref.Name)
	})
	if err != nil {
		return preflight.Report{}, err
	}
	report := preflight.Examine(identity, append(needs, more...), func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} })
	for _, s := range steps {
		if err := execute.Reserved(s); err != nil {
			report.Refuse(apply.Describe(s.Object), err)
		}
	}
	return report, nil
}
