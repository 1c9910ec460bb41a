package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/resolve"
)

// maxManifest is the maximum size of a manifest of a ClusterExtension, in bytes.
const maxManifest = 4 << 20

// object returns the ClusterExtension that the flags and the name select. If c is not nil and the cluster has a
// ClusterExtension of that name, the result has its status, which determines the possible upgrades.
func (f *Flags) object(ctx context.Context, c client.Reader, in io.Reader, name string) (*olmv1.ClusterExtension, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var ext *olmv1.ClusterExtension
	var err error
	switch {
	case f.File != "":
		ext, err = f.fromFile(in, name)
	case f.Package != "":
		ext, err = f.fromFlags(name)
	default:
		ext, err = fromCluster(ctx, c, name)
	}
	if err != nil {
		return nil, err
	}
	if c != nil && !f.isInCluster() {
		if err := useLive(ctx, c, ext); err != nil {
			return nil, err
		}
	}
	if err := f.override(ext); err != nil {
		return nil, err
	}
	return ext, checkSpec(ext)
}

// override applies --version and --channel.
func (f *Flags) override(ext *olmv1.ClusterExtension) error {
	if f.Namespace != "" && ext.Spec.Namespace != f.Namespace {
		return fmt.Errorf("--namespace=%s: ClusterExtension %s is installed in namespace %q", f.Namespace, ext.Name, ext.Spec.Namespace)
	}
	from := ext.Spec.Source.Catalog
	if from == nil {
		return fmt.Errorf("ClusterExtension %s: spec.source.catalog is required", ext.Name)
	}
	if f.Version != "" {
		from.Version = f.Version
	}
	if len(f.Channels) > 0 {
		from.Channels = f.Channels
	}
	return nil
}

func (f *Flags) fromFlags(name string) (*olmv1.ClusterExtension, error) {
	ext := &olmv1.ClusterExtension{}
	ext.Name = name
	ext.Spec.Namespace, ext.Spec.ServiceAccount.Name = f.Namespace, f.ServiceAccount
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: f.Package}}
	if f.WatchNamespace == "" {
		return ext, nil
	}
	inline, err := json.Marshal(map[string]string{"watchNamespace": f.WatchNamespace})
	ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: inline}}
	return ext, err
}

// fromFile returns the ClusterExtension in a manifest, which may contain other objects. With a name, it returns the one with
// this name.
func (f *Flags) fromFile(in io.Reader, name string) (*olmv1.ClusterExtension, error) {
	if f.File != "-" {
		file, err := os.Open(f.File)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.File, err)
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("%s: larger than %d bytes", f.File, maxManifest)
	}
	all, err := extensionsIn(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.File, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: it contains no ClusterExtension", f.File)
	}
	ext, err := choose(all, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.File, err)
	}
	return ext, nil
}

// choose returns the ClusterExtension with this name or, without a name, the only one.
func choose(all []*olmv1.ClusterExtension, name string) (*olmv1.ClusterExtension, error) {
	var found []string
	for _, ext := range all {
		found = append(found, ext.Name)
	}
	switch i := slices.Index(found, name); {
	case name == "" && len(all) == 1:
		return all[0], nil
	case name == "":
		return nil, fmt.Errorf("it contains %d ClusterExtensions; specify one of them: %s", len(all), strings.Join(found, ", "))
	case i < 0:
		return nil, fmt.Errorf("it does not contain ClusterExtension %q; it contains: %s", name, strings.Join(found, ", "))
	default:
		return all[i], nil
	}
}

// extensionsIn returns the ClusterExtensions of a manifest, without their status.
func extensionsIn(data []byte) ([]*olmv1.ClusterExtension, error) {
	var out []*olmv1.ClusterExtension
	reader := catalog.Documents(data)
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if err := catalog.CheckAliases(doc, maxManifest); err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &obj.Object); err != nil {
			return nil, err
		}
		if gvk := obj.GroupVersionKind(); gvk.Kind != olmv1.KindClusterExtension || gvk.Group != olmv1.GroupVersion.Group {
			continue
		}
		if got := obj.GroupVersionKind().GroupVersion(); got != olmv1.GroupVersion {
			return nil, fmt.Errorf("ClusterExtension %s: apiVersion %q is not supported: must be %q", obj.GetName(), got, olmv1.GroupVersion)
		}
		ext, err := decode(doc)
		if err != nil {
			return nil, fmt.Errorf("ClusterExtension %s: %w", obj.GetName(), err)
		}
		out = append(out, ext)
	}
}

// decode decodes a ClusterExtension, and rejects unknown fields as kubectl apply does.
func decode(doc []byte) (*olmv1.ClusterExtension, error) {
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	ext := &olmv1.ClusterExtension{}
	unknown, err := kjson.UnmarshalStrict(text, ext)
	if err := cmp.Or(err, errors.Join(unknown...)); err != nil {
		return nil, err
	}
	ext.Status, ext.UID = olmv1.ClusterExtensionStatus{}, ""
	return ext, nil
}

// fromCluster reads a ClusterExtension. If it does not exist, the error contains similar names.
func fromCluster(ctx context.Context, c client.Reader, name string) (*olmv1.ClusterExtension, error) {
	ext := &olmv1.ClusterExtension{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, ext)
	const instead = "; to check a ClusterExtension that does not exist yet, use --filename or --package"
	switch {
	case err == nil:
		return ext, nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("ClusterExtensions are not installed on this cluster: %w%s, with --catalog", err, instead)
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	var list olmv1.ClusterExtensionList
	if c.List(ctx, &list) != nil {
		return nil, fmt.Errorf("ClusterExtension %q not found%s", name, instead)
	}
	var all []string
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	if near := resolve.Similar(name, all); len(near) > 0 {
		return nil, fmt.Errorf("ClusterExtension %q not found; similar names: %s%s", name, strings.Join(near, ", "), instead)
	}
	return nil, fmt.Errorf("ClusterExtension %q not found%s", name, instead)
}

// useLive sets the status and the UID of the object to those of the ClusterExtension in the cluster, if it exists and can be
// read.
func useLive(ctx context.Context, c client.Reader, ext *olmv1.ClusterExtension) error {
	live := &olmv1.ClusterExtension{}
	err := c.Get(ctx, client.ObjectKey{Name: ext.Name}, live)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return nil
	}
	ext.UID, ext.Status = live.UID, live.Status
	return err
}
