package source

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/configmap"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Unproven is the reason why the origin of an InstallPlan's content must be verified: anyone who can create InstallPlans can create
// one whose name matches other content.
const Unproven = "The name of an InstallPlan does not prove where its content comes from."

// Origin describes whether the content of a pin was found in a bundle that the user specified, or in the pin's CatalogSource.
type Origin struct {
	Pin resolver.Pin
	// Confirmed describes the source that has the content. It is "" if no source is known to have it.
	Confirmed string
	// Given is set if the source is a bundle that the user specified.
	Given bool
	// DefaultChannel is the package's default channel in the CatalogSource that has the content.
	DefaultChannel string
	// Reason is the reason why Confirmed is "".
	Reason string
	// Differs is set if a source was read and has other content.
	Differs bool
}

// String describes the pin and its origin.
func (o Origin) String() string { return o.What() + ": " + o.Result() }

// What describes the pin: its bundle, package, channel and CatalogSource.
func (o Origin) What() string {
	return fmt.Sprintf("%s, from package %s, channel %s, of CatalogSource %s", o.Pin.Bundle, o.Pin.Package, o.Pin.Channel, o.Pin.CatalogKey())
}

// Result describes whether the content is confirmed.
func (o Origin) Result() string {
	if o.Confirmed == "" {
		return "not confirmed: " + o.Reason
	}
	return "confirmed: " + o.Confirmed + " has the same content"
}

// IsConfirmed reports whether the content of the pin is confirmed.
func (o Origin) IsConfirmed() bool { return o.Confirmed != "" }

// OriginsOf compares the pins with the given bundles and, for pins that these do not contain, with the CatalogSources as the user can
// read them now. Failures to read are reasons in the result.
func OriginsOf(ctx context.Context, c client.Reader, pins []resolver.Pin, given []*Bundle) []Origin {
	var out []Origin
	for _, pin := range pins {
		o := Origin{Pin: pin}
		switch of := named(given, pin.Bundle); {
		case len(of) == 0:
			o.compareWithCatalog(ctx, c)
		case slices.ContainsFunc(of, func(b *Bundle) bool { return b.Content.Digest() == pin.Digest }):
			o.Confirmed, o.Given = "the bundle from --bundle", true
		default:
			o.differ("the bundle from --bundle", of[0].Content)
		}
		out = append(out, o)
	}
	return out
}

// named returns the given bundles with a name.
func named(given []*Bundle, name string) (out []*Bundle) {
	for _, b := range given {
		if b.CSV.Name == name {
			out = append(out, b)
		}
	}
	return out
}

func (o *Origin) compareWithCatalog(ctx context.Context, c client.Reader) {
	what := "CatalogSource " + o.Pin.CatalogKey().String()
	content, err := o.readContent(ctx, c)
	switch {
	case err != nil:
		o.Reason = what + ": " + err.Error()
	case content.Digest() == o.Pin.Digest:
		o.Confirmed = what
	default:
		o.differ(what, content)
	}
}

func (o *Origin) differ(what string, content *catalog.Content) {
	o.Differs = true
	o.Reason = fmt.Sprintf("%s has digest %s, but the plan requires digest %s", what, content.Digest(), o.Pin.Digest)
}

// errImage means that only Remit reads a catalog.
var errImage = errors.New("this command does not read catalogs from registries; specify the bundle with --bundle")

// readContent returns the content of the pin's bundle in its CatalogSource, and sets the default channel. It reads only CatalogSources
// that have a ConfigMap.
func (o *Origin) readContent(ctx context.Context, c client.Reader) (*catalog.Content, error) {
	pin := o.Pin
	src := &operatorsv1alpha1.CatalogSource{}
	if err := c.Get(ctx, pin.CatalogKey(), src); err != nil {
		return nil, err
	}
	switch src.Spec.SourceType {
	case operatorsv1alpha1.SourceTypeConfigmap, operatorsv1alpha1.SourceTypeInternal:
	default:
		return nil, errImage
	}
	cm := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: src.Namespace, Name: src.Spec.ConfigMap}, cm); err != nil {
		return nil, err
	}
	snapshot, err := configmap.Load(ctx, cm, fbc.Loader{Limits: catalog.TenantDecoding()})
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", cm.Name, err)
	}
	pkg := snapshot.Packages[pin.Package]
	if pkg == nil || pkg.Channels[pin.Channel] == nil {
		return nil, fmt.Errorf("it has no channel %s of package %s", pin.Channel, pin.Package)
	}
	if _, ok := pkg.Channels[pin.Channel].Entries[pin.Bundle]; !ok {
		return nil, fmt.Errorf("channel %s of package %s has no bundle %s", pin.Channel, pin.Package, pin.Bundle)
	}
	o.DefaultChannel = pkg.DefaultChannel
	return snapshot.Reader.Content(ctx, pin.Package, pin.Channel, pin.Bundle)
}

// AddBundleFlag adds the flag --bundle, which [Flags.Load] reads.
func AddBundleFlag(cmd *cobra.Command, bundles *[]string) {
	cmd.Flags().StringSliceVar(bundles, "bundle", nil,
		"bundle directory or image that the InstallPlan must match, and that is read if the InstallPlan does not contain its manifests (repeatable)")
}
