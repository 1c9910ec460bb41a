package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Extension is a ClusterExtension.
type Extension struct {
	Name string `json:"name"`
	// Namespace is where the namespaced objects of the bundle are installed.
	Namespace string `json:"namespace"`
	Package   string `json:"package,omitempty"`
	// Identity is the ServiceAccount or user that the extension is installed as, according to its spec. Enrolled is
	// determined by this command.
	Identity string `json:"identity"`
	Enrolled Answer `json:"enrolled"`
	// Bundle and Version identify the installed version.
	Bundle  string `json:"bundle,omitempty"`
	Version string `json:"version,omitempty"`
	// Authorized, Installed, Progressing and Available contain the states of the conditions with these names.
	Authorized  State `json:"authorized"`
	Installed   State `json:"installed"`
	Progressing State `json:"progressing"`
	Available   State `json:"available"`
	// Blocked lists the conditions that report why the desired version is not installed or does not run.
	Blocked []Block  `json:"blocked,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// State is the state of a condition. Status is Unknown if the condition is outdated.
type State struct {
	Status Answer `json:"status"`
	Reason string `json:"reason,omitempty"`
}

func (s State) String() string {
	if s.Reason == "" {
		return string(s.Status)
	}
	return fmt.Sprintf("%s (%s)", s.Status, s.Reason)
}

// extension returns the report about one ClusterExtension.
func (w *world) extension(ext *olmv1.ClusterExtension, remitNamespace string) Extension {
	identity := assess.Identity(ext)
	out := Extension{
		Name: ext.Name, Namespace: ext.Spec.Namespace, Identity: identity.String(), Enrolled: w.isEnrolled(identity, remitNamespace),
		Authorized: state(ext, olmv1.TypeAuthorized), Installed: state(ext, olmv1.TypeInstalled),
		Progressing: state(ext, olmv1.TypeProgressing), Available: state(ext, olmv1.TypeAvailable),
	}
	if from := ext.Spec.Source.Catalog; from != nil {
		out.Package = from.PackageName
	}
	if is := ext.Status.Install; is != nil {
		out.Bundle, out.Version = is.Bundle.Name, is.Bundle.Version
	}
	if current(ext, olmv1.TypeProgressing) == nil {
		out.Notes = append(out.Notes, "Remit has not reconciled the ClusterExtension yet")
	}
	if ext.DeletionTimestamp != nil {
		out.Notes = append(out.Notes, "the ClusterExtension is being deleted")
	}
	if c := current(ext, olmv1.TypeDeprecated); c != nil && c.Status == metav1.ConditionTrue {
		out.Notes = append(out.Notes, "deprecated: "+c.Message)
	}
	out.Blocked = extensionBlocks(ext)
	return out
}

// current returns the condition with the given type if it is about the current generation, or nil.
func current(ext *olmv1.ClusterExtension, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(ext.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != ext.Generation {
		return nil
	}
	return c
}

func state(ext *olmv1.ClusterExtension, kind string) State {
	c := current(ext, kind)
	if c == nil {
		return State{Status: Unknown}
	}
	switch c.Status {
	case metav1.ConditionTrue:
		return State{Yes, c.Reason}
	case metav1.ConditionFalse:
		return State{No, c.Reason}
	}
	return State{Unknown, c.Reason}
}

// isEnrolled reports whether Remit is allowed to act as the identity of a ClusterExtension.
func (w *world) isEnrolled(identity scoped.Identity, remitNamespace string) Answer {
	if w.rbac == nil || w.partial && !identity.IsSynthetic() && !slices.Contains(w.namespaces(), identity.Account.Namespace) {
		return Unknown
	}
	program := rbac.ServiceAccount(remitNamespace, names.ServiceAccountExtension)
	var ok bool
	var err error
	if identity.IsSynthetic() {
		ok, err = w.rbac.CanImpersonate(program, identity)
	} else {
		ok, err = w.rbac.CanRequestToken(program, identity.Account.Key())
	}
	switch {
	case err != nil:
		return Unknown
	case ok:
		return Yes
	}
	return No
}

// extensionBlocks returns the conditions that report a problem. Missing permissions come first, and each problem is listed
// only once.
func extensionBlocks(ext *olmv1.ClusterExtension) []Block {
	var out []Block
	for _, kind := range []string{olmv1.TypeAuthorized, olmv1.TypeProgressing, olmv1.TypeAvailable} {
		c := current(ext, kind)
		if c == nil || !blocks(c) || len(out) > 0 && repeats(c, out) {
			continue
		}
		b := Block{olmv1.KindClusterExtension, ext.Name, kind, c.Reason, withoutManifests(c.Message)}
		out = append(out, b)
	}
	return out
}

// blocks reports whether a condition reports a problem. The condition Progressing with reason Retrying also reports a problem,
// although its status is True.
func blocks(c *metav1.Condition) bool {
	if c.Type == olmv1.TypeProgressing && c.Reason == olmv1.ReasonRetrying {
		return true
	}
	return c.Status == metav1.ConditionFalse
}

// repeats reports whether the condition Progressing repeats the problem that the condition Authorized reports. It recognizes the
// phrases with which OLM v1 introduces such a problem.
func repeats(c *metav1.Condition, earlier []Block) bool {
	if c.Type != olmv1.TypeProgressing || earlier[0].Condition != olmv1.TypeAuthorized {
		return false
	}
	text := withoutManifests(c.Message)
	return strings.Contains(text, "pre-authorization failed: ") || strings.Contains(text, "operation cannot proceed due to the following validation error(s): ") ||
		earlier[0].includes(Block{Message: text})
}

// withoutManifests removes the RBAC to apply from a message, because other commands print it.
func withoutManifests(message string) string {
	message, _, _ = strings.Cut(refusals(message), "\n---\n")
	return strings.TrimSuffix(strings.TrimSpace(message), " or apply:")
}

// next returns what to do about a ClusterExtension that is blocked.
func (e Extension) next() []string {
	var out []string
	if e.Enrolled == No {
		command := "clusterextension " + e.Name
		if account, ok := strings.CutPrefix(e.Identity, "ServiceAccount "); ok {
			command = account + " --for=clusterextensions"
		}
		out = append(out, "To let Remit act as the identity: kubectl remit enroll "+command)
	}
	if e.Authorized.Status == No && e.Authorized.Reason != olmv1.ReasonIdentityNotFound {
		out = append(out, "To see everything that is missing and grant it: kubectl remit grant clusterextension/"+e.Name)
	}
	return out
}

// blocked reports whether the ClusterExtension is blocked, or does not run yet.
func (e Extension) blocked() bool {
	return len(e.Blocked) > 0 || e.Progressing.Status != Unknown && e.Progressing.Reason != olmv1.ReasonSucceeded
}

func compareExtensions(a, b Extension) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
