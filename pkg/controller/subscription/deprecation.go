package subscription

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

// deprecations contains the catalog author's deprecation messages for the package, the channel and the installed bundle
// of a Subscription (schema olm.deprecations of file-based catalogs). A message is "" if there is none.
type deprecations struct{ pkg, channel, bundle string }

// deprecationsOf returns the deprecation messages for a Subscription. There are none if the namespace cannot use its catalog.
func (w *world) deprecationsOf(sub *operatorsv1alpha1.Subscription) (d deprecations) {
	snapshot, ok := w.input.Snapshot(w.catalogOf(sub).key)
	if !ok {
		return d
	}
	pkg := snapshot.Packages[sub.Spec.Package]
	if pkg == nil {
		return d
	}
	note := func(kind, name, message string) string {
		if message == "" {
			return ""
		}
		return fmt.Sprintf("olm.%s/%s: %s", kind, name, message)
	}
	d.pkg = note("package", pkg.Name, pkg.Deprecation)
	if c := pkg.Channels[cmp.Or(sub.Spec.Channel, pkg.DefaultChannel)]; c != nil {
		d.channel = note("channel", c.Name, c.Deprecation)
	}
	if csv := w.installedFor(sub); csv != nil {
		if b := pkg.Bundles[csv.Name]; b != nil {
			d.bundle = note("bundle", b.Name, b.Deprecation)
		}
	}
	return d
}

// conditions returns the messages of the deprecation conditions, keyed by type. An empty message means that the
// condition is absent. As the contract requires, the conditions have no reasons and are never False. The
// condition Deprecated combines the messages of the others.
func (d deprecations) conditions() map[operatorsv1alpha1.SubscriptionConditionType]string {
	all := slices.DeleteFunc([]string{d.pkg, d.channel, d.bundle}, func(text string) bool { return text == "" })
	return map[operatorsv1alpha1.SubscriptionConditionType]string{
		operatorsv1alpha1.SubscriptionPackageDeprecated: d.pkg,
		operatorsv1alpha1.SubscriptionChannelDeprecated: d.channel,
		operatorsv1alpha1.SubscriptionBundleDeprecated:  d.bundle,
		operatorsv1alpha1.SubscriptionDeprecated:        strings.Join(all, "; "),
	}
}
