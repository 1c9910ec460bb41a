package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxExcess is the maximum length, in bytes, of the list of excess permissions in an IdentityError.
const maxExcess = 700

// IdentityError reports that a Deployment would run as a ServiceAccount that it is not allowed to use, or that a Secret would
// contain its token (docs/adr/0036).
type IdentityError struct {
	// Deployment is the name of a Deployment, or Secret that of a Secret.
	Deployment, Secret string
	ServiceAccount     string
	// Why is the reason. It includes the permissions that the ServiceAccount has and the account does not, if any.
	Why string
}

func (e *IdentityError) Error() string {
	if e.Secret != "" {
		return fmt.Sprintf("Secret %q may not contain a token of ServiceAccount %q: %s", e.Secret, e.ServiceAccount, e.Why)
	}
	return fmt.Sprintf("deployment %q may not run as ServiceAccount %q: %s", e.Deployment, e.ServiceAccount, e.Why)
}

// Bound contains the identity with which CheckIdentities compares ServiceAccounts (the account, or the synthetic user
// of a ClusterExtension) and the data for the comparison.
type Bound struct {
	Account scoped.Identity
	// Made returns the time, by the API server's clock, at which this install created a ServiceAccount of the namespace.
	// ok is false if the install did not create the ServiceAccount; a matching name is not proof that it did.
	Made func(name string) (at time.Time, ok bool)
	// Owner identifies the bindings that this install created.
	Owner ownerutil.Owner
	RBAC  rbac.Listers
	// Unchanged is true if the Deployments already run as desired. Bindings that installs created are then not compared with
	// the account: nothing new gets their permissions, and package excess deals with those that exceed the account.
	Unchanged bool
	// Confirm returns those of the bindings that also according to the API server exceed the account, because another
	// authorizer may allow what RBAC does not. If it is nil, all of them do.
	Confirm func(found []excess.Object) ([]excess.Object, error)
	// Log receives the names of bindings that the error must not reveal, and Program is the name of the program whose log it
	// is.
	Log     logr.Logger
	Program string
}

// CheckIdentities checks which ServiceAccounts the CSV's Deployments run as. A ServiceAccount, including `default`, is
// allowed if the account has all of the ServiceAccount's permissions in its namespace and cluster-wide; the account itself is never
// allowed. In other namespaces, only what the installs of the namespace created counts. For a ServiceAccount that the CSV declares and its install created, two kinds of bindings are ignored:
// those that installs of its namespace created and that the account could also create now, and those that users created
// later, because users are not limited to the account's permissions. Bindings that an install created as an account that
// could do more, which may have been another one, are not ignored, however new they are. Bindings that existed before the
// ServiceAccount were not meant for this operator and are not ignored either. The error is an *IdentityError.
func CheckIdentities(csv *operatorsv1alpha1.ClusterServiceVersion, by Bound) error {
	declared := bundle.ServiceAccountNames(csv)
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	allowed := map[string]bool{} // a ServiceAccount is judged once, because that can take long, and there are up to 1,000 Deployments
	for i := range specs {
		key := types.NamespacedName{Namespace: csv.Namespace, Name: ServiceAccountName(&specs[i].Spec.Template.Spec)}
		if allowed[key.Name] {
			continue
		}
		own := slices.Contains(declared, key.Name) && key.Name != bundle.DefaultServiceAccount
		why, err := by.refusal(key, own)
		if err != nil {
			return err
		}
		if why != "" {
			return &IdentityError{Deployment: specs[i].Name, ServiceAccount: key.Name, Why: why}
		}
		allowed[key.Name] = true
	}
	return nil
}

// CheckToken checks of which ServiceAccount a Secret contains a token, as CheckIdentities checks as which ones Deployments run: every Pod
// that mounts the Secret can use the token. live is the existing Secret, or nil. Secrets without a token, and those that already have that
// of the same ServiceAccount, are allowed. The error is an *IdentityError.
func CheckToken(secret, live *unstructured.Unstructured, by Bound) error {
	key := types.NamespacedName{Namespace: secret.GetNamespace(), Name: tokenOf(secret)}
	if key.Name == "" || live != nil && by.Owner.Owns(live) && tokenOf(live) == key.Name {
		return nil
	}
	why, err := by.refusal(key, key.Name != bundle.DefaultServiceAccount)
	if err != nil || why == "" {
		return err
	}
	return &IdentityError{Secret: secret.GetName(), ServiceAccount: key.Name, Why: why}
}

// tokenOf returns the name of the ServiceAccount of which the control plane writes a token into an object, or "".
func tokenOf(obj *unstructured.Unstructured) string {
	if kind, _, _ := unstructured.NestedString(obj.Object, "type"); obj.GetKind() != "Secret" || kind != string(corev1.SecretTypeServiceAccountToken) {
		return ""
	}
	return obj.GetAnnotations()[corev1.ServiceAccountNameKey]
}

// NotYet is the time at which a ServiceAccount that does not exist counts as made: all existing bindings precede it.
func NotYet() time.Time { return time.Unix(1<<40, 0) }

// refusal returns why a ServiceAccount is not allowed, or "" if it is allowed. own is true if the bundle declares it.
func (by Bound) refusal(key types.NamespacedName, own bool) (string, error) {
	if !by.Account.IsSynthetic() && key == by.Account.Account.Key() {
		return "it is the account that bounds this install", nil
	}
	return by.judge(key, own)
}

// judge returns why a ServiceAccount that has more permissions than the account is not allowed, or "" if it is
// allowed. own is true if the CSV declares it.
func (by Bound) judge(key types.NamespacedName, own bool) (string, error) {
	r := reason{why: "the ClusterServiceVersion does not declare it", counts: by.reaches(key)}
	if own {
		r.why = "the install of the ClusterServiceVersion did not create it"
		if at, made := by.Made(key.Name); made {
			var err error
			if r, err = by.ofMade(key, at); err != nil || r.counts == nil {
				return "", err
			}
		}
	}
	permissions, err := by.excessOf(key, by.RBAC, r.counts)
	if err != nil || len(permissions) == 0 {
		return "", err
	}
	if bindings := by.outside(key, r.counts); len(bindings) > 0 {
		by.Log.Info("Bindings outside its namespace prevent a ServiceAccount from being used", "serviceAccount", key.String(), "account", by.Account.ID(), "bindings", bindings)
		r.advice += fmt.Sprintf("; an administrator can find the bindings outside of namespace %s in the log of %s", key.Namespace, by.Program)
	}
	return fmt.Sprintf("%s, and it has permissions that %s does not have: %s%s", r.why, by.Account, status.Lines(permissions, maxExcess), r.advice), nil
}

// subject returns the account as a subject. A synthetic user is treated as if it had the permissions that every ServiceAccount
// of the cluster has, because the operator does not get these from its install.
func (by Bound) subject() rbac.Subject {
	out := rbac.SubjectOf(by.Account)
	if by.Account.IsSynthetic() {
		out.Groups = append(out.Groups, serviceaccount.AllServiceAccountsGroup)
	}
	return out
}

// maxBindings is the maximum number of bindings that one log line names.
const maxBindings = 20

// outside describes the bindings outside a ServiceAccount's namespace that give it permissions that the account does
// not have. They are only logged, because users who read the error may not be allowed to see other namespaces.
func (by Bound) outside(key types.NamespacedName, counts func(rbac.Binding) bool) []string {
	bindings := by.RBAC.Untracked().UncoveredBindings(rbac.ServiceAccount(key.Namespace, key.Name), by.subject(),
		func(b rbac.Binding) bool { return b.GetNamespace() != key.Namespace && counts(b) })
	var out []string
	for _, b := range bindings[:min(len(bindings), maxBindings)] {
		out = append(out, apply.Describe(b))
	}
	return out
}

// reason says why a ServiceAccount is not allowed: the bindings that count, why they do, and what helps.
type reason struct {
	why, advice string
	counts      func(rbac.Binding) bool
}

// ofMade returns the reason why a ServiceAccount is not allowed that the install created at a time. If there is none, it has
// no counts. Lookups are tracked only if there is a reason: what is created later need not wake an install that waits for
// nothing.
func (by Bound) ofMade(key types.NamespacedName, at time.Time) (reason, error) {
	inherits, err := by.excessOf(key, by.RBAC.Untracked(), by.inherited(key, at))
	if err != nil {
		return reason{}, err
	}
	granted, err := by.granted(key)
	if err != nil {
		return reason{}, err
	}
	var why, advice []string
	if len(inherits) > 0 {
		why = append(why, "bindings that are not newer than the ServiceAccount refer to it")
		advice = append(advice, "; delete them, or recreate them if they are meant for this operator")
	}
	if len(granted) > 0 {
		why = append(why, "bindings that were created for this operator as an account that could do more refer to it")
		advice = append(advice, fmt.Sprintf("; grant what they grant to %s, or delete them", by.Account))
	}
	if len(why) == 0 {
		return reason{}, nil
	}
	inherited := by.inherited(key, at)
	return reason{why: strings.Join(why, " and "), advice: strings.Join(advice, ""), counts: func(b rbac.Binding) bool {
		return inherited(b) || granted[apply.Describe(b)]
	}}, nil
}

// reaches returns a function that selects the bindings that count for a ServiceAccount.
func (by Bound) reaches(key types.NamespacedName) func(rbac.Binding) bool {
	return Reach{RBAC: by.RBAC, Installed: by.installer}.Of(key)
}

// inherited returns a function that selects those of the bindings that count that existed before a ServiceAccount and that the
// install did not create. Timestamps have a resolution of one second; a binding from the same second is selected.
func (by Bound) inherited(key types.NamespacedName, at time.Time) func(rbac.Binding) bool {
	reaches := by.reaches(key)
	return func(b rbac.Binding) bool {
		return !b.GetCreationTimestamp().After(at) && !by.Owner.Owns(b) && reaches(b)
	}
}

// granted returns the names of the ServiceAccount's bindings that installs created and that the account could not create
// now. Its permissions may have been revoked, or an earlier account of the OperatorGroup was a stronger one.
func (by Bound) granted(key types.NamespacedName) (map[string]bool, error) {
	if by.Unchanged {
		return nil, nil
	}
	found, err := by.exceeding(key, by.RBAC.Untracked())
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if found, err = by.exceeding(key, by.RBAC); err == nil && by.Confirm != nil {
		found, err = by.Confirm(found)
	}
	out := map[string]bool{}
	for _, o := range found {
		out[apply.Describe(o.Object)] = true
	}
	return out, err
}

// exceeding compares the ServiceAccount's bindings that installs created with the account's permissions.
func (by Bound) exceeding(key types.NamespacedName, listers rbac.Listers) ([]excess.Object, error) {
	var created []client.Object
	reaches := by.reaches(key)
	seen := map[string]bool{} // a ClusterRoleBinding applies in every scope
	_, err := listers.UncoveredOf(rbac.ServiceAccount(key.Namespace, key.Name), by.subject(), func(b rbac.Binding) bool {
		if name := apply.Describe(b); !seen[name] {
			seen[name] = true
			if _, ok := by.installer(b); ok && reaches(b) {
				created = append(created, b)
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	granted := rbac.NewRecent(func(namespace string) rbac.Permissions { return listers.LowerBound(by.subject(), namespace) })
	return excess.Account{RulesOf: listers.RulesOf, Granted: granted.Get, Includes: listers.Includes}.Find(created)
}

// installer returns the owner for which this install created a binding, or another install of the same OperatorGroup. Installs
// elsewhere have another account: what they bind is like what users bind, and must not be able to delay this install.
func (by Bound) installer(b rbac.Binding) (ownerutil.Owner, bool) {
	if by.Owner.Owns(b) || by.Owner.Extension != "" || by.Owner.Proofs == nil {
		return by.Owner, by.Owner.Owns(b)
	}
	return ownerutil.OwnerIn(b, by.Owner.Namespace, by.Owner.Since, by.Owner.Proofs)
}

// excessOf returns the permissions that a ServiceAccount has through some bindings and that the account does not have.
// counts selects the bindings. Only rules granted in the ServiceAccount's own namespace are listed: readers of the error
// may not be allowed to see other namespaces, and rules contain object names.
func (by Bound) excessOf(key types.NamespacedName, listers rbac.Listers, counts func(rbac.Binding) bool) ([]string, error) {
	subject := rbac.ServiceAccount(key.Namespace, key.Name)
	uncovered, err := listers.UncoveredOf(subject, by.subject(), counts)
	if limit := (*rbac.LimitError)(nil); errors.As(err, &limit) {
		return []string{fmt.Sprintf("roles with more than the supported maximum of %d verbs, API groups, resources, names and URLs in total", rbac.MaxValues)}, nil
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
