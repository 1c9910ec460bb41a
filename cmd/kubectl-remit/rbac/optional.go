package rbac

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// allFeatures is the value of --optional that selects all optional features. It is the default if the flag has no value.
const allFeatures = "all"

func (o *Options) addOptional(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&o.Optional, "optional", nil,
		"also print the permissions for optional features, which are not required to install the operator: all, "+strings.Join(features(), ", ")+"; all if no value is given")
	cmd.Flags().Lookup("optional").NoOptDefVal = allFeatures
	complete := cobra.FixedCompletions(append([]string{allFeatures}, features()...), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("optional", complete) // fails only for an undefined flag
}

// features returns the names of all optional features.
func features() []string {
	var out []string
	for _, f := range preflight.Features() {
		out = append(out, string(f))
	}
	return out
}

// optional returns the permissions that the selected optional features need, and those for watching certificates, with which
// the account can do nothing that the required permissions do not allow. It prints a note about permissions that --optional
// does not include.
func (o *Options) optional(b *bundle.Bundle, scope build.Scope) ([]rbac.Need, error) {
	selected := []preflight.Feature{preflight.FeatureCertificates}
	for _, name := range o.Optional {
		switch {
		case name == allFeatures:
			selected = append(selected, preflight.Features()...)
		case slices.Contains(features(), name):
			selected = append(selected, preflight.Feature(name))
		default:
			return nil, fmt.Errorf("unknown optional feature %q: must be %s or %s", name, allFeatures, strings.Join(features(), ", "))
		}
	}
	if slices.Contains(selected, preflight.FeatureRoles) {
		message.Fprintln(o.ErrOut, "note: the ClusterRoles olm.og.* of the OperatorGroup are not included, because the API server allows only a cluster-admin to write them")
	}
	return preflight.Optional(b, scope, selected...)
}
