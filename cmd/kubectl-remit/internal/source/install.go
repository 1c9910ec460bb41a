package source

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step/build"
)

// Flags holds the values of the flags that describe an install.
type Flags struct {
	// Account is the account, in the form NAMESPACE/NAME.
	Account string
	// Mode is an install mode; "" selects the one that matches Targets or, without Targets, the narrowest supported
	// one.
	Mode    string
	Targets []string
	// PlainHTTP allows a registry without TLS.
	PlainHTTP bool
}

// AddFlags adds the flags to a command.
func (f *Flags) AddFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Account, "account", "", "ServiceAccount whose permissions limit the install, as NAMESPACE/NAME")
	flags.StringVar(&f.Mode, "install-mode", "", "install mode: "+strings.Join(modeNames(), ", ")+
		"; by default the one that matches --target-namespaces, or the narrowest that the bundle supports")
	flags.StringSliceVar(&f.Targets, "target-namespaces", nil, "namespaces for the operator to watch, for SingleNamespace and MultiNamespace")
	flags.BoolVar(&f.PlainHTTP, "plain-http", false, "allow a registry without TLS; not required for a registry on this machine")
	complete := cobra.FixedCompletions(modeNames(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("install-mode", complete) // fails only for an undefined flag
}

// modes returns all install modes, narrowest first.
func modes() []operatorsv1alpha1.InstallModeType {
	return []operatorsv1alpha1.InstallModeType{
		operatorsv1alpha1.InstallModeTypeOwnNamespace,
		operatorsv1alpha1.InstallModeTypeSingleNamespace,
		operatorsv1alpha1.InstallModeTypeMultiNamespace,
		operatorsv1alpha1.InstallModeTypeAllNamespaces,
	}
}

func modeNames() []string {
	var out []string
	for _, m := range modes() {
		out = append(out, string(m))
	}
	return out
}

// ParseAccount parses NAMESPACE/NAME.
func ParseAccount(text string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok {
		return types.NamespacedName{}, fmt.Errorf("account %q: must have the form NAMESPACE/NAME", text)
	}
	if problems := apivalidation.ValidateNamespaceName(namespace, false); len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("account %q: namespace: %s", text, problems[0])
	}
	if problems := apivalidation.ValidateServiceAccountName(name, false); len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("account %q: name: %s", text, problems[0])
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// Scope returns the scope for installing the bundle in a namespace, or an error if the bundle does not support the
// scope.
func (f *Flags) Scope(b *Bundle, namespace string) (build.Scope, error) {
	targets, err := f.TargetsOr(b, namespace, nil)
	return build.Scope{Namespace: namespace, Package: b.Package, Targets: targets}, err
}

// TargetsOr returns the target namespaces that the flags select or, if no flag is set, the given targets. If there are
// none either, it returns the narrowest targets that the bundle supports.
func (f *Flags) TargetsOr(b *Bundle, namespace string, targets []string) ([]string, error) {
	supported, err := operatorsv1alpha1.NewInstallModeSet(b.CSV.Spec.InstallModes)
	if err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: install modes: %w", b.CSV.Name, err)
	}
	if len(targets) == 0 || f.Mode != "" || len(f.Targets) > 0 {
		if targets, err = f.targets(supported, namespace); err != nil {
			return nil, err
		}
	}
	if err := supported.Supports(namespace, targets); err != nil {
		return nil, fmt.Errorf("ClusterServiceVersion %q: %w; it supports %s", b.CSV.Name, err, describe(supported))
	}
	return targets, nil
}

// targets returns the target namespaces for the requested mode.
func (f *Flags) targets(supported operatorsv1alpha1.InstallModeSet, namespace string) ([]string, error) {
	targets, err := f.named()
	if err != nil {
		return nil, err
	}
	switch mode := operatorsv1alpha1.InstallModeType(f.Mode); {
	case mode == "" && len(targets) == 0:
		return narrowest(supported, namespace)
	case mode != "" && !slices.Contains(modes(), mode):
		return nil, fmt.Errorf("unknown install mode %q: must be one of %s", f.Mode, strings.Join(modeNames(), ", "))
	default:
		return targetsOf(mode, targets, namespace)
	}
}

// named returns the namespaces that --target-namespaces lists, sorted and without duplicates.
func (f *Flags) named() ([]string, error) {
	targets := slices.Clone(f.Targets)
	slices.Sort(targets)
	for _, t := range targets {
		if problems := apivalidation.ValidateNamespaceName(t, false); len(problems) > 0 {
			return nil, fmt.Errorf("target namespace %q: %s", t, problems[0])
		}
	}
	return slices.Compact(targets), nil
}

// targetsOf returns the target namespaces for a mode and the requested targets, or an error if the mode does not allow
// these targets.
func targetsOf(mode operatorsv1alpha1.InstallModeType, targets []string, namespace string) ([]string, error) {
	switch mode {
	case operatorsv1alpha1.InstallModeTypeOwnNamespace:
		if len(targets) > 0 && !slices.Equal(targets, []string{namespace}) {
			return nil, fmt.Errorf("install mode %s targets only namespace %q", mode, namespace)
		}
		return []string{namespace}, nil
	case operatorsv1alpha1.InstallModeTypeSingleNamespace:
		if len(targets) != 1 || targets[0] == namespace {
			return nil, fmt.Errorf("install mode %s: --target-namespaces must be one namespace other than %q", mode, namespace)
		}
	case operatorsv1alpha1.InstallModeTypeMultiNamespace:
		if len(targets) < 2 {
			return nil, fmt.Errorf("install mode %s: --target-namespaces must name at least two namespaces", mode)
		}
	case operatorsv1alpha1.InstallModeTypeAllNamespaces:
		if len(targets) > 0 {
			return nil, fmt.Errorf("install mode %s does not allow --target-namespaces", mode)
		}
		return []string{scoped.AllNamespaces}, nil
	}
	return targets, nil
}

// narrowest returns the narrowest targets that are supported and need no flag: the namespace of the install, or all
// namespaces.
func narrowest(supported operatorsv1alpha1.InstallModeSet, namespace string) ([]string, error) {
	switch {
	case supported[operatorsv1alpha1.InstallModeTypeOwnNamespace]:
		return []string{namespace}, nil
	case supported[operatorsv1alpha1.InstallModeTypeAllNamespaces]:
		return []string{scoped.AllNamespaces}, nil
	}
	if !supported[operatorsv1alpha1.InstallModeTypeSingleNamespace] && !supported[operatorsv1alpha1.InstallModeTypeMultiNamespace] {
		return nil, errors.New("the bundle supports no install mode")
	}
	return nil, errors.New("the bundle supports " + describe(supported) + ": set the namespaces to watch with --target-namespaces")
}

func describe(supported operatorsv1alpha1.InstallModeSet) string {
	var out []string
	for _, m := range modes() {
		if supported[m] {
			out = append(out, string(m))
		}
	}
	if len(out) == 0 {
		return "no install mode"
	}
	return strings.Join(out, ", ")
}
