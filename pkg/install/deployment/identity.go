package deployment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExcess bounds, in bytes, the list of excess permissions in an IdentityError.
const maxExcess = 700

// IdentityError reports that a Deployment would run as a ServiceAccount that it may not use (security model, D3).
type IdentityError struct {
	Deployment     string
	ServiceAccount string
	// Why is the reason, including the permissions that the account is missing.
	Why string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("deployment %q may not run as ServiceAccount %q: %s", e.Deployment, e.ServiceAccount, e.Why)
}

// Bound is what CheckIdentities compares ServiceAccounts with.
type Bound struct {
	Account types.NamespacedName
	// Made returns when this install created a ServiceAccount of the namespace, by the API server's clock. ok is false
	// if it did not: the name alone proves nothing.
	Made func(name string) (at time.Time, ok bool)
	// Owner identifies the bindings that this install created.
	Owner ownerutil.Owner
	RBAC  rbac.Listers
	// Log names the bindings that the error does not name.
	Log logr.Logger
}

// CheckIdentities compares the ServiceAccounts that the CSV's Deployments run as with the account. Each of them,
// including `default`, is allowed if the account has all of its permissions in every scope; the account itself is
// never allowed. For a ServiceAccount that the CSV declares and its install created, two kinds of bindings are
// ignored: those that the install created, as the account, and those that users created later, who are not bounded by
// the account. Bindings that existed before the ServiceAccount were not meant for this operator and count. The error
// is an *IdentityError.
func CheckIdentities(csv *operatorsv1alpha1.ClusterServiceVersion, by Bound) error {
	declared := bundle.ServiceAccountNames(csv)
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		key := types.NamespacedName{Namespace: csv.Namespace, Name: ServiceAccountName(&specs[i].Spec.Template.Spec)}
		refuse := func(why string) error {
			return &IdentityError{Deployment: specs[i].Name, ServiceAccount: key.Name, Why: why}
		}
		if key == by.Account {
			return refuse("it is the account that bounds this install")
		}
		own := slices.Contains(declared, key.Name) && key.Name != bundle.DefaultServiceAccount
		why, err := by.judge(key, own)
		if err != nil {
			return err
		}
		if why != "" {
			return refuse(why)
		}
	}
	return nil
}

// judge returns why a ServiceAccount exceeds the account, or "". own is true if the CSV declares it.
func (by Bound) judge(key types.NamespacedName, own bool) (string, error) {
	why, advice := "the ClusterServiceVersion does not declare it", ""
	counts := func(rbac.Binding) bool { return true }
	if own {
		why = "its install did not create it"
		if at, made := by.Made(key.Name); made {
			why, advice = "bindings that are not newer than it refer to it", "; delete them, or recreate them if they are meant for this operator"
			counts = by.inherited(at)
			// Later bindings to it do not count and need not wake this install.
			if excess, err := by.excessOf(key, by.RBAC.Untracked(), counts); err != nil || len(excess) == 0 {
				return "", err
			}
		}
	}
	excess, err := by.excessOf(key, by.RBAC, counts)
	if err != nil || len(excess) == 0 {
		return "", err
	}
	if bindings := by.outside(key, counts); len(bindings) > 0 {
		by.Log.Info("Bindings outside of its namespace keep a ServiceAccount from being used", "serviceAccount", key.String(), "account", by.Account.String(), "bindings", bindings)
		advice += fmt.Sprintf("; an administrator finds the bindings outside of namespace %s in the log of remit-olm", key.Namespace)
	}
	return fmt.Sprintf("%s, and it has permissions that ServiceAccount %s does not have: %s%s", why, by.Account, status.Lines(excess, maxExcess), advice), nil
}

// maxBindings bounds how many bindings one line of the log names.
const maxBindings = 20

// outside describes the bindings outside of a ServiceAccount's namespace by which it exceeds the account. They are logged: users who
// read the error may not know what is in other namespaces.
func (by Bound) outside(key types.NamespacedName, counts func(rbac.Binding) bool) []string {
	bindings := by.RBAC.Untracked().UncoveredBindings(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ServiceAccount(by.Account.Namespace, by.Account.Name),
		func(b rbac.Binding) bool { return b.GetNamespace() != key.Namespace && counts(b) })
	var out []string
	for _, b := range bindings[:min(len(bindings), maxBindings)] {
		out = append(out, apply.Describe(b))
	}
	return out
}

// inherited includes bindings that existed before a ServiceAccount was created and that the install did not create.
// Timestamps have a resolution of one second; in doubt a binding is included.
func (by Bound) inherited(at time.Time) func(rbac.Binding) bool {
	return func(b rbac.Binding) bool { return !b.GetCreationTimestamp().After(at) && !by.Owner.Owns(b) }
}

// excessOf returns the permissions that bindings grant one ServiceAccount and that the account does not have. It
// lists only rules granted in the ServiceAccount's own namespace: readers of the error may not know about others, and
// rules contain object names.
func (by Bound) excessOf(key types.NamespacedName, listers rbac.Listers, counts func(rbac.Binding) bool) ([]string, error) {
	subject := rbac.ServiceAccount(key.Namespace, key.Name)
	uncovered, err := listers.UncoveredOf(subject, rbac.ServiceAccount(by.Account.Namespace, by.Account.Name), counts)
	if limit := (*rbac.LimitError)(nil); errors.As(err, &limit) {
		return []string{fmt.Sprintf("roles with more than %d verbs, API groups, resources, names and URLs, which are not supported", rbac.MaxValues)}, nil
	}
	if err != nil {
		return nil, err
	}
	everywhere, err := listers.EffectiveRules(subject, rbac.ClusterScope)
	if err != nil {
		return nil, err
	}
	var out []string
	outside := false
	for _, scope := range uncovered {
		if scope.Namespace != key.Namespace {
			outside = true
			continue
		}
		own := rbac.Missing(everywhere, scope.Rules)
		outside = outside || len(own) < len(scope.Rules)
		for _, rule := range own {
			out = append(out, "in namespace "+scope.Namespace+" "+rbac.Line(rule))
		}
	}
	if outside {
		out = append([]string{"permissions outside of namespace " + key.Namespace}, out...)
	}
	return out, nil
}
