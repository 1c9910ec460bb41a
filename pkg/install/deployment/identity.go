package deployment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExcess bounds, in bytes, the list of what a ServiceAccount holds in an IdentityError.
const maxExcess = 700

// IdentityError says that a Deployment would run as a ServiceAccount that it may not have (security
// model, D3).
type IdentityError struct {
	Deployment     string
	ServiceAccount string
	// Why says what is wrong; where the account lacks rules, which.
	Why string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("deployment %q may not run as ServiceAccount %q: %s", e.Deployment, e.ServiceAccount, e.Why)
}

// CheckNames refuses what the API server would refuse of the ServiceAccount names of the CSV's
// Deployments, in both fields that can name one, before anything is written or looked up by it.
func CheckNames(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	for i := range specs {
		pod := &specs[i].Spec.Template.Spec
		for _, name := range []string{pod.ServiceAccountName, pod.DeprecatedServiceAccount} {
			if name == "" {
				continue
			}
			if problems := apivalidation.ValidateServiceAccountName(name, false); len(problems) > 0 {
				return fmt.Errorf("deployment %q: serviceAccountName %q: %s", specs[i].Name, name, problems[0])
			}
		}
	}
	return nil
}

// Bound is by what CheckIdentities holds ServiceAccounts.
type Bound struct {
	Account types.NamespacedName
	// Made returns when this install made a ServiceAccount of the namespace, by the API server's clock; ok is false if it
	// did not: a name alone says nothing.
	Made func(name string) (at time.Time, ok bool)
	// Owner tells which bindings this install made.
	Owner ownerutil.Owner
	RBAC  rbac.Listers
}

// CheckIdentities holds the ServiceAccounts that the CSV's Deployments run as against the account. Each of them,
// `default` included, passes where the account holds all that it holds, everywhere; the account itself never does. For
// those that the CSV declares and its install has made, two kinds of bindings do not count: those that the install has
// made, as the account, and those that were created later, by people who are not bounded by it. What
// was bound to the name before there was such a ServiceAccount was not meant for this operator. The error is an
// *IdentityError.
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

// judge returns why a ServiceAccount exceeds the account; "" if it does not. own says that the CSV declares it.
func (by Bound) judge(key types.NamespacedName, own bool) (string, error) {
	why, advice := "the ClusterServiceVersion does not declare it", ""
	counts := func(rbac.Binding) bool { return true }
	if own {
		why = "its install did not make it"
		if at, made := by.Made(key.Name); made {
			why, advice = "bindings that are not newer than it name it", "; delete them, or create them again if they are meant for this operator"
			counts = by.inherited(at)
			// What others bind to it from now on does not count, and need not wake this install.
			if excess, err := by.excessOf(key, by.RBAC.Untracked(), counts); err != nil || len(excess) == 0 {
				return "", err
			}
		}
	}
	excess, err := by.excessOf(key, by.RBAC, counts)
	if err != nil || len(excess) == 0 {
		return "", err
	}
	return fmt.Sprintf("%s, and it holds what ServiceAccount %s does not: %s%s", why, by.Account, status.Lines(excess, maxExcess), advice), nil
}

// inherited counts the bindings that a ServiceAccount made at a time has found, and that the install did not make. Times
// have whole seconds; in doubt a binding counts.
func (by Bound) inherited(at time.Time) func(rbac.Binding) bool {
	return func(b rbac.Binding) bool { return !b.GetCreationTimestamp().After(at) && !by.Owner.Owns(b) }
}

// excessOf lists what one ServiceAccount holds by bindings that count, and the account does not. Only the rules that it has by bindings of its own
// namespace are shown: whoever reads the error may not know what is elsewhere, and rules name objects.
func (by Bound) excessOf(key types.NamespacedName, listers rbac.Listers, counts func(rbac.Binding) bool) ([]string, error) {
	subject := rbac.ServiceAccount(key.Namespace, key.Name)
	uncovered, err := listers.UncoveredOf(subject, rbac.ServiceAccount(by.Account.Namespace, by.Account.Name), counts)
	if limit := (*rbac.LimitError)(nil); errors.As(err, &limit) {
		return []string{fmt.Sprintf("roles of more than %d verbs, API groups, resources, names and URLs, which are not looked at", rbac.MaxValues)}, nil
	}
	if err != nil {
		return nil, err
	}
	everywhere, err := listers.EffectiveRules(subject, rbac.ClusterScope)
	if err != nil {
		return nil, err
	}
	var out []string
	elsewhere := false
	for _, scope := range uncovered {
		if scope.Namespace != key.Namespace {
			elsewhere = true
			continue
		}
		own := rbac.Missing(everywhere, scope.Rules)
		elsewhere = elsewhere || len(own) < len(scope.Rules)
		for _, rule := range own {
			out = append(out, "in namespace "+scope.Namespace+" "+rbac.Line(rule))
		}
	}
	if elsewhere {
		out = append([]string{"permissions outside of namespace " + key.Namespace}, out...)
	}
	return out, nil
}
