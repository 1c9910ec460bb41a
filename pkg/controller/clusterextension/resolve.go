package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// resolveBundle selects the bundle to install. Any catalog change wakes the extensions for which no bundle was found.
func resolveBundle(ctx context.Context, s *run) (outcome, error) {
	if err := budget.Refused(s.ext); err != nil { // without its selector, it would select all catalogs
		return blocked(message.Of(err)), nil
	}
	request, err := assess.Request(s.ext)
	if err != nil {
		return blocked(message.Of(err)), nil //nolint:nilerr // the condition reports the error
	}
	catalogs, err := s.catalogs(ctx)
	if err != nil {
		return outcome{}, err
	}
	for _, c := range catalogs {
		if request.Selects(c.Labels) && c.Snapshot != nil && c.Snapshot.Packages[request.Package] != nil {
			s.used = append(s.used, c.Name)
		}
	}
	s.resolved, err = resolve.Resolve(catalogs, request)
	s.setDeprecations(s.resolved.Deprecations)
	var problem *resolve.Problem
	switch {
	case errors.As(err, &problem) && problem.Reason == resolve.InvalidVersionRange:
		return blocked(message.Line(problem.Message)), nil
	case errors.As(err, &problem):
		return waiting(message.Line(problem.Message)), nil
	case err != nil:
		return outcome{}, err
	}
	if s.resolved.Bundle == nil {
		return s.keepInstalled(ctx)
	}
	return proceed(), nil
}

// catalogs returns the ClusterCatalogs that are enabled, with their content if it is available.
func (s *run) catalogs(ctx context.Context) ([]resolve.Catalog, error) {
	list := &olmv1.ClusterCatalogList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ClusterCatalogs: %w", err)
	}
	var out []resolve.Catalog
	for i := range list.Items {
		k := &list.Items[i]
		if k.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable || k.DeletionTimestamp != nil {
			continue
		}
		one := resolve.Catalog{Name: k.Name, Labels: catalogLabels(k), Priority: k.Spec.Priority}
		one.Snapshot, _ = s.Catalogs.Get(types.NamespacedName{Name: k.Name})
		out = append(out, one)
	}
	return out, nil
}

// catalogLabels returns the labels of a ClusterCatalog, including the one that its controller adds.
func catalogLabels(k client.Object) map[string]string {
	return labels.Merge(k.GetLabels(), labels.Set{olmv1.LabelMetadataName: k.GetName()})
}

// keepInstalled continues with the content of the installed version if no catalog provides it any longer. If its content is not
// known, its objects are left unchanged.
func (s *run) keepInstalled(ctx context.Context) (outcome, error) {
	b, why, err := s.installedContent(ctx)
	switch {
	case err != nil:
		return outcome{}, err
	case b == nil:
		s.unobserved = "its objects are not checked, because " + why
		return succeeded(s.resolved.Kept + "; " + s.unobserved), nil
	}
	s.bundle = b
	return proceed(), nil
}

// readBundle reads and parses the bundle. It waits for an image that has not been read yet.
func readBundle(ctx context.Context, s *run) (outcome, error) {
	if s.bundle != nil {
		return proceed(), nil
	}
	from := s.resolved
	key := from.Snapshot.Key.String() + " " + from.Snapshot.Digest + " " + from.Channel + " " + from.Bundle.Name
	if is := s.memory.Get(s.key()).content; is != nil && is.key == key {
		s.bundle = is.bundle
		return proceed(), nil
	}
	if err := s.awaitTurn(key); err != nil {
		return outcome{}, err
	}
	raw, err := s.contentOf(ctx, from.Channel, from.Bundle)
	if err != nil {
		return s.withoutContent(ctx, err)
	}
	parsed, cost, err := s.parse(ctx, key, raw)
	switch {
	case isCrowded(err), err != nil && ctx.Err() != nil:
		return outcome{}, err
	case err != nil:
		return blocked(s.aboutBundle(err)), nil //nolint:nilerr // the condition reports the error
	}
	s.bundle = parsed
	s.memory.Change(s.key(), func(is *remembered) {
		is.setContent(&content{key: key, name: from.Bundle.Name, digest: raw.Digest(), bundle: parsed, cost: cost}, s.ext.Status.Install)
	})
	return proceed(), nil
}

// withoutContent decides how a run goes on whose bundle could not be read.
func (s *run) withoutContent(ctx context.Context, err error) (outcome, error) {
	from := s.resolved
	if errors.Is(err, catalog.ErrNoContent) && s.isInstalled() { // the installed version is maintained in the meantime
		known, _, keptErr := s.installedContent(ctx)
		if known != nil || keptErr != nil {
			s.bundle = known
			return outcome{}, keptErr
		}
	}
	var unread *catalog.NotUnpacked
	switch {
	case errors.As(err, &unread) && unread.Failure == nil:
		return rolling(fmt.Sprintf("reading the image of bundle %q, version %s", from.Bundle.Name, from.Bundle.Version)), nil
	case errors.Is(err, catalog.ErrNoContent):
		return waiting(s.aboutBundle(err)), nil
	}
	return outcome{}, err
}

// contentOf requests the content of a bundle of the resolved catalog. From then on, attempts to read the bundle's image wake the
// extension, until a run ends without requesting the content. The namespaces into which extensions install take turns reading images.
func (s *run) contentOf(ctx context.Context, channel string, b *catalog.Bundle) (*catalog.Content, error) {
	if b.Image != "" {
		s.images = append(s.images, b.Image)
		s.memory.Change(s.key(), func(is *remembered) {
			if !slices.Contains(is.images, b.Image) {
				is.images = append(slices.Clip(is.images), b.Image)
			}
		})
	}
	ctx = catalog.RequestedBy(ctx, s.ext.Spec.Namespace)
	return s.resolved.Snapshot.Reader.Content(ctx, s.resolved.Package.Name, channel, b.Name)
}

// aboutBundle returns a message about the resolved bundle, in the wording of OLM v1.
func (s *run) aboutBundle(err error) message.Text {
	if s.resolved.Bundle == nil {
		return message.Of(err)
	}
	return message.Sprintf("error for resolved bundle %q with version %q: %v", s.resolved.Bundle.Name, s.resolved.Bundle.Version, err)
}

// setDeprecations sets the four deprecation conditions.
func (s *run) setDeprecations(d resolve.Deprecations) {
	channels := make([]string, 0, len(d.Channels))
	for _, c := range d.Channels {
		channels = append(channels, c.Message)
	}
	slices.Sort(channels)
	s.setDeprecation(olmv1.TypePackageDeprecated, d.Known, true, d.Package)
	s.setDeprecation(olmv1.TypeChannelDeprecated, d.Known, true, status.Lines(channels, status.MaxMessage/2))
	s.setDeprecation(olmv1.TypeBundleDeprecated, d.Known, d.HasBundle, d.Bundle)
	s.setDeprecation(olmv1.TypeDeprecated, d.Known, true, status.Lines(slices.DeleteFunc([]string{d.Package, status.Lines(channels, status.MaxMessage/4), d.Bundle},
		func(text string) bool { return text == "" }), status.MaxMessage/2))
}

func (s *run) setDeprecation(kind string, known, exists bool, text string) {
	switch {
	case !known:
		s.setCondition(kind, metav1.ConditionUnknown, olmv1.ReasonDeprecationStatusUnknown, "no available catalog has the package")
	case !exists:
		s.setCondition(kind, metav1.ConditionUnknown, olmv1.ReasonAbsent, "the catalog does not have the bundle, or nothing is installed")
	case text != "":
		s.setCondition(kind, metav1.ConditionTrue, olmv1.ReasonDeprecated, message.Line(text))
	default:
		s.setCondition(kind, metav1.ConditionFalse, olmv1.ReasonNotDeprecated, "not deprecated")
	}
}
