package v1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
)

// server returns a client of a control plane. Tests send only dry-run requests unless they need stored
// objects.
func server(t *testing.T) client.Client {
	t.Helper()
	return crds.Install(t, controlplane.Shared(t).Config())
}

// The API server does not drop or change any field of a manifest.
func TestManifestsOfOLMv1ApplyUnchanged(t *testing.T) {
	c := server(t)
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			written := &unstructured.Unstructured{}
			require.NoError(t, yaml.UnmarshalStrict(text, &written.Object))
			stored := written.DeepCopy()
			require.NoError(t, c.Create(t.Context(), stored, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)))
			requireContains(t, decoded(t, stored.Object["spec"]), decoded(t, written.Object["spec"]))

			var typed client.Object = &olmv1.ClusterExtension{}
			if written.GetKind() == olmv1.KindClusterCatalog {
				typed = &olmv1.ClusterCatalog{}
			}
			raw, err := json.Marshal(stored.Object)
			require.NoError(t, err)
			decoder := json.NewDecoder(bytes.NewReader(raw))
			decoder.DisallowUnknownFields()
			require.NoError(t, decoder.Decode(typed))
			again, err := json.Marshal(typed)
			require.NoError(t, err)
			require.JSONEq(t, string(raw), string(again), "the Go types lose a field")
		})
	}
}

func TestUnsetServiceAccountIsNotSerialized(t *testing.T) {
	text, err := json.Marshal(extension(func(*olmv1.ClusterExtension) {}))
	require.NoError(t, err)
	require.NotContains(t, string(text), "serviceAccount")
	require.NotContains(t, string(text), "status")

	with, err := json.Marshal(extension(func(e *olmv1.ClusterExtension) { e.Spec.ServiceAccount.Name = "installer" }))
	require.NoError(t, err)
	require.Contains(t, string(with), `"serviceAccount":{"name":"installer"}`)
}

func TestDefaults(t *testing.T) {
	c := server(t)
	e := extension(func(*olmv1.ClusterExtension) {})
	require.NoError(t, c.Create(t.Context(), e, client.DryRunAll))
	require.Equal(t, olmv1.UpgradeConstraintPolicyCatalogProvided, e.Spec.Source.Catalog.UpgradeConstraintPolicy)
	require.Empty(t, e.Spec.ServiceAccount.Name)
	require.Nil(t, e.Spec.Install)

	k := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"type": "Image", "image": map[string]any{"ref": "quay.io/team/catalog:latest"}},
	}}}
	k.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.KindClusterCatalog))
	k.SetName("api-defaults")
	require.NoError(t, c.Create(t.Context(), k, client.DryRunAll))
	spec := k.Object["spec"].(map[string]any)
	require.EqualValues(t, 0, spec["priority"])
	require.Equal(t, "Available", spec["availabilityMode"])
}

const (
	longName   = "name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"
	immutable  = " is immutable"
	onlyInline = "inline is required when configType is Inline, and forbidden otherwise"
)

// Rows without wantErr must be accepted.
func TestClusterExtensionValidation(t *testing.T) {
	c := server(t)
	for _, tc := range []struct {
		name    string
		edit    func(e *olmv1.ClusterExtension)
		wantErr string
	}{
		{name: "without a ServiceAccount", edit: func(*olmv1.ClusterExtension) {}},
		{name: "no namespace", edit: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = "" }, wantErr: "namespace must be a valid DNS1123 label"},
		{name: "namespace is not a label", edit: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = "a.b" }, wantErr: "namespace must be a valid DNS1123 label"},
		{name: "long namespace", edit: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = long(64) }, wantErr: "may not be more than 63"},
		{name: "longest namespace", edit: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = long(63) }},
		{name: "ServiceAccount with dots", edit: account("some.service-account.1")},
		{name: "ServiceAccount in upper case", edit: account("Installer"), wantErr: "spec.serviceAccount.name: Invalid value: " + `"Installer": ` + longName},
		{name: "ServiceAccount ends with a hyphen", edit: account("installer-"), wantErr: longName},
		{name: "ServiceAccount ends with a line break", edit: account("installer\n"), wantErr: longName},
		{name: "long ServiceAccount", edit: account(long(254)), wantErr: "may not be more than 253"},
		{name: "no package", edit: pkg(""), wantErr: "packageName must be a valid DNS1123 subdomain. It must contain only"},
		{name: "package in upper case", edit: pkg("Foo"), wantErr: "packageName must be a valid DNS1123 subdomain. It must contain only"},
		{name: "long package", edit: pkg(long(254)), wantErr: "may not be more than 253"},
		{name: "no source", edit: func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog = nil },
			wantErr: "catalog is required when sourceType is Catalog, and forbidden otherwise"},
		{name: "other source", edit: func(e *olmv1.ClusterExtension) { e.Spec.Source.SourceType = "Git" }, wantErr: `supported values: "Catalog"`},
		{name: "channels", edit: channels("stable", "1.1.x", "v1-stable")},
		{name: "channel in snake case", edit: channels("stable", "original_40"), wantErr: "channels entries must be valid DNS1123 subdomains"},
		{name: "empty channel", edit: channels(""), wantErr: "channels entries must be valid DNS1123 subdomains"},
		{name: "long channel", edit: channels(long(254)), wantErr: "may not be more than 253"},
		{name: "most channels", edit: channels(strings.Split(strings.Repeat("a,", 255)+"a", ",")...)},
		{name: "too many channels", edit: channels(strings.Split(strings.Repeat("a,", 256)+"a", ",")...), wantErr: "must have at most 256 items"},
		{name: "other policy", edit: func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.UpgradeConstraintPolicy = "Any" },
			wantErr: `supported values: "CatalogProvided", "SelfCertified"`},
		{name: "empty install", edit: install(olmv1.ClusterExtensionInstallConfig{}), wantErr: "at least one of [preflight] are required when install is specified"},
		{name: "empty preflight", edit: install(olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{}}),
			wantErr: "at least one of [crdUpgradeSafety] are required when preflight is specified"},
		{name: "strict CRD upgrades", edit: install(enforce(olmv1.CRDUpgradeSafetyEnforcementStrict))},
		{name: "no enforcement", edit: install(enforce("")), wantErr: `supported values: "None", "Strict"`},
		{name: "shortest deadline", edit: deadline(10)},
		{name: "short deadline", edit: deadline(9), wantErr: "should be greater than or equal to 10"},
		{name: "longest deadline", edit: deadline(720)},
		{name: "long deadline", edit: deadline(721), wantErr: "should be less than or equal to 720"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requireAnswer(t, c.Create(t.Context(), extension(tc.edit), client.DryRunAll), tc.wantErr)
		})
	}
}

// These rows need manifests that the Go types cannot express.
func TestClusterExtensionUnions(t *testing.T) {
	c := server(t)
	for _, tc := range []struct{ name, spec, wantErr string }{
		{name: "ServiceAccount without a name", spec: `{serviceAccount: {}}`, wantErr: "spec.serviceAccount.name: Required value"},
		{name: "ServiceAccount with an empty name", spec: `{serviceAccount: {name: ""}}`, wantErr: longName},
		{name: "null ServiceAccount", spec: `{serviceAccount: null}`},
		{name: "source without a type", spec: `{source: {catalog: {packageName: a}}}`, wantErr: "spec.source.sourceType: Required value"},
		{name: "config", spec: `{config: {configType: Inline, inline: {watchNamespace: a, other: {b: [1, true]}}}}`},
		{name: "config without values", spec: `{config: {configType: Inline}}`, wantErr: onlyInline},
		{name: "config without a type", spec: `{config: {inline: {a: b}}}`, wantErr: "spec.config.configType: Required value"},
		{name: "config of another type", spec: `{config: {configType: Secret, inline: {a: b}}}`, wantErr: `supported values: "Inline"`},
		{name: "empty config", spec: `{config: {configType: Inline, inline: {}}}`, wantErr: "should have at least 1 properties"},
		{name: "config that is not an object", spec: `{config: {configType: Inline, inline: [a]}}`, wantErr: "must be of type object"},
		{name: "enforcement is required", spec: `{install: {preflight: {crdUpgradeSafety: {}}}}`, wantErr: "enforcement: Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"namespace": "demo", "source": map[string]any{"sourceType": "Catalog", "catalog": map[string]any{"packageName": "foo"}},
			}}}
			obj.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension))
			obj.SetName("api-unions")
			var spec map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(tc.spec), &spec))
			for field, v := range spec {
				obj.Object["spec"].(map[string]any)[field] = v
			}
			requireAnswer(t, c.Create(t.Context(), obj, client.DryRunAll), tc.wantErr)
		})
	}
}

func TestVersionRanges(t *testing.T) {
	c := server(t)
	for _, version := range []string{
		"1.2.3", "v1.2.3", "1", "1.2", "1.2.x", "1.2.X", "1.*", "*", "x", ">=1.2.3", "=> 1.2.3", "<= 2.x", "!=1.0.0", "=1.0", "~1.2", "~> 1", "^0.0.3",
		">=1.2.3, <2.0.0", ">=1.2.3 <2.0.0", ">=1.2.3,<2.0.0 || >3.0.0", "^0 || ^3 || ^5", "1.0.0-alpha.1+build.5", " >= 1.0 ", "^1||^2",
		"01.2.3", "1.2.3-rc-1 , 2.0",
	} {
		require.NoError(t, c.Create(t.Context(), extension(versions(version)), client.DryRunAll), "%q", version)
	}
	for _, version := range []string{
		"latest", "1.2.3.4", ">=", "1.2.3,", "|| 1.0", "1.0 | 2.0", "1.02.0.0", "=>>1.0", "1.0;2.0", "1..2", "1.2.3-", "1.2.3+", "1.2.3-a_b", "1.2 - 1.4",
		"1.0 && 2.0", " ", "1.0\x00",
	} {
		requireAnswer(t, c.Create(t.Context(), extension(versions(version)), client.DryRunAll), "invalid version expression")
	}
	requireAnswer(t, c.Create(t.Context(), extension(versions("1."+strings.Repeat("0", 63))), client.DryRunAll), "may not be more than 64")
}

// The schema rejects changes to immutable fields. It allows changes to the identity: only an admission policy restricts them.
func TestClusterExtensionUpdates(t *testing.T) {
	c := server(t)
	e := extension(func(e *olmv1.ClusterExtension) { e.Name = "api-updates" })
	require.NoError(t, c.Create(t.Context(), e))
	t.Cleanup(func() { _ = c.Delete(t.Context(), e) })
	for _, tc := range []struct {
		name    string
		edit    func(e *olmv1.ClusterExtension)
		wantErr string
	}{
		{name: "namespace", edit: func(e *olmv1.ClusterExtension) { e.Spec.Namespace = "other" }, wantErr: "namespace" + immutable},
		{name: "package", edit: pkg("other"), wantErr: "packageName" + immutable},
		{name: "no source", edit: func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog = nil }, wantErr: "catalog is required"},
		{name: "unset to set", edit: account("installer")},
		{name: "another ServiceAccount", edit: account("installer-2")},
		{name: "set to unset", edit: account("")},
		{name: "version", edit: versions("^2")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := e.DeepCopy()
			tc.edit(changed)
			err := c.Update(t.Context(), changed)
			requireAnswer(t, err, tc.wantErr)
			if err == nil {
				e = changed
			}
		})
	}
}

func TestClusterExtensionStatus(t *testing.T) {
	c := server(t)
	e := extension(func(e *olmv1.ClusterExtension) { e.Name = "api-status" })
	require.NoError(t, c.Create(t.Context(), e))
	t.Cleanup(func() { _ = c.Delete(t.Context(), e) })
	e.Status = olmv1.ClusterExtensionStatus{
		Install:  &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "foo.v1.2.3", Version: "1.2.3-rc.1+build"}},
		Identity: &olmv1.Identity{Kind: olmv1.IdentityKindUser, Name: "olm:clusterextension:api-status", Groups: []string{"olm:clusterextensions", "system:authenticated"}},
	}
	one := olmv1.InventoryObject{Group: "apps", Kind: "Deployment", Namespace: "demo", Name: "foo"}
	for range olmv1.MaxInventory {
		e.Status.Inventory = append(e.Status.Inventory, one)
	}
	require.NoError(t, c.Status().Update(t.Context(), e))
	stored := &olmv1.ClusterExtension{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(e), stored))
	require.Equal(t, e.Status, stored.Status)

	stored.Status.Inventory = append(stored.Status.Inventory, one)
	requireAnswer(t, c.Status().Update(t.Context(), stored), "must have at most 1000 items")
	stored.Status = olmv1.ClusterExtensionStatus{Install: &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "foo", Version: "one"}}}
	requireAnswer(t, c.Status().Update(t.Context(), stored), "version must be well-formed semver")
}

func TestClusterCatalogValidation(t *testing.T) {
	c := server(t)
	digest := strings.Repeat("0a", 32)
	for _, tc := range []struct {
		name    string
		edit    func(k *olmv1.ClusterCatalog)
		wantErr string
	}{
		{name: "tag", edit: ref("quay.io/operatorhubio/catalog:latest")},
		{name: "port and tag", edit: ref("localhost:5000/catalog:v1.0_a-b")},
		{name: "digest", edit: ref("quay.io/team/my-catalog.prod@sha256:" + digest)},
		{name: "tag and digest", edit: ref("quay.io/team/catalog:v1@sha256:" + digest)},
		{name: "other algorithm", edit: ref("quay.io/team/catalog@multihash+base58:" + digest)},
		{name: "separators in the name", edit: ref("quay.io/a__b/c--d/e.f:x")},
		{name: "no reference", edit: ref(""), wantErr: "must start with a valid domain"},
		{name: "domain starts with a hyphen", edit: ref("-quay.io/team/catalog:v1"),
			wantErr: `must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the "." character.`},
		{name: "domain with a space", edit: ref("quay io/team/catalog:v1"), wantErr: "must start with a valid domain"},
		{name: "port is not a number", edit: ref("quay.io:https/team/catalog:v1"), wantErr: "must start with a valid domain"},
		{name: "no name", edit: ref("quay.io"), wantErr: `a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the ".", "_", "__", "-" characters.`},
		{name: "name in upper case", edit: ref("quay.io/Team/catalog:v1"), wantErr: "a valid name is required"},
		{name: "name with an empty part", edit: ref("quay.io/team//catalog:v1"), wantErr: "a valid name is required"},
		{name: "no identifier", edit: ref("quay.io/team/catalog"), wantErr: "must end with a digest or a tag"},
		{name: "only a port", edit: ref("localhost:5000/catalog"), wantErr: "must end with a digest or a tag"},
		{name: "empty tag", edit: ref("quay.io/team/catalog:"), wantErr: "must end with a digest or a tag"},
		{name: "longest tag", edit: ref("quay.io/team/catalog:" + long(127))},
		{name: "long tag", edit: ref("quay.io/team/catalog:" + long(128)), wantErr: "tag is invalid. the tag must not be more than 127 characters"},
		{name: "tag with a sign", edit: ref("quay.io/team/catalog:-a"),
			wantErr: `tag is invalid. valid tags must begin with a word character (alphanumeric + "_") followed by word characters or ".", and "-" characters`},
		{name: "two tags", edit: ref("quay.io/team/catalog:a:b"), wantErr: "tag is invalid. valid tags must begin"},
		{name: "digest without an algorithm", edit: ref("quay.io/team/catalog@" + digest), wantErr: "must end with a digest or a tag"},
		{name: "algorithm starts with a digit", edit: ref("quay.io/team/catalog@1sha:" + digest),
			wantErr: `digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the "-", "_", "+", and "." characters.`},
		{name: "short digest", edit: ref("quay.io/team/catalog@sha256:" + digest[:31]), wantErr: "digest is not valid. the encoded string must be at least 32 characters"},
		{name: "digest is not hexadecimal", edit: ref("quay.io/team/catalog@sha256:" + digest[:63] + "g"),
			wantErr: "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)"},
		{name: "long reference", edit: ref("quay.io/" + long(1000) + ":v1"), wantErr: "may not be more than 1000"},
		{name: "polled", edit: poll("quay.io/team/catalog:v1", 1)},
		{name: "polled too often", edit: poll("quay.io/team/catalog:v1", 0), wantErr: "should be greater than or equal to 1"},
		{name: "digest is polled", edit: poll("quay.io/team/catalog@sha256:"+digest, 5), wantErr: "cannot specify pollIntervalMinutes while using digest-based image"},
		{name: "no image", edit: func(k *olmv1.ClusterCatalog) { k.Spec.Source.Image = nil }, wantErr: "image is required when source type is Image, and forbidden otherwise"},
		{name: "other type", edit: func(k *olmv1.ClusterCatalog) { k.Spec.Source.Type = "Git" }, wantErr: `supported values: "Image"`},
		{name: "priority", edit: func(k *olmv1.ClusterCatalog) { k.Spec.Priority = -1 << 31 }},
		{name: "other mode", edit: func(k *olmv1.ClusterCatalog) { k.Spec.AvailabilityMode = "Off" }, wantErr: `supported values: "Unavailable", "Available"`},
		{name: "longest name", edit: func(k *olmv1.ClusterCatalog) { k.Name = long(63) }},
		{name: "name is not a label value", edit: func(k *olmv1.ClusterCatalog) { k.Name = long(64) }, wantErr: "metadata.name must have at most 63 characters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "api-rows"}}
			ref("quay.io/team/catalog:v1")(k)
			tc.edit(k)
			requireAnswer(t, c.Create(t.Context(), k, client.DryRunAll), tc.wantErr)
		})
	}
}

func TestClusterCatalogStatus(t *testing.T) {
	c := server(t)
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "api-catalog-status"}}
	ref("quay.io/team/catalog:v1")(k)
	require.NoError(t, c.Create(t.Context(), k))
	t.Cleanup(func() { _ = c.Delete(t.Context(), k) })
	k.Status = olmv1.ClusterCatalogStatus{
		ResolvedSource: &olmv1.ResolvedCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ResolvedImageSource{Ref: "quay.io/team/catalog@sha256:" + strings.Repeat("0a", 32)}},
		URLs:           &olmv1.ClusterCatalogURLs{Base: "https://remit-catalogs.remit.svc/catalogs/a"},
		LastUnpacked:   ptr.To(metav1.Now().Rfc3339Copy()),
	}
	require.NoError(t, c.Status().Update(t.Context(), k))
	k.Status.URLs.Base = "ftp://a.b/c"
	requireAnswer(t, c.Status().Update(t.Context(), k), "scheme must be either http or https")
	k.Status.URLs.Base = "catalogs/a"
	requireAnswer(t, c.Status().Update(t.Context(), k), "must be a valid URL")
}

// requireContains requires that got contains every field of want, with the same value.
func requireContains(t *testing.T, got, want any) {
	t.Helper()
	fields, ok := want.(map[string]any)
	if !ok {
		require.Equal(t, want, got)
		return
	}
	for name, v := range fields {
		require.Contains(t, got, name)
		requireContains(t, got.(map[string]any)[name], v)
	}
}

// decoded returns a value as the JSON decoder represents it, so that numbers have comparable types.
func decoded(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

func requireAnswer(t *testing.T, err error, wantErr string) {
	t.Helper()
	if wantErr == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, wantErr)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
}

func long(n int) string { return strings.Repeat("a", n) }

func extension(edit func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
	e := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "api-rows"}}
	e.Spec.Namespace = "demo"
	e.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "foo"}}
	edit(e)
	return e
}

func account(name string) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.ServiceAccount.Name = name }
}

func pkg(name string) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.PackageName = name }
}

func versions(text string) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Version = text }
}

func channels(names ...string) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.Source.Catalog.Channels = names }
}

func install(config olmv1.ClusterExtensionInstallConfig) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.Install = &config }
}

func enforce(e olmv1.CRDUpgradeSafetyEnforcement) olmv1.ClusterExtensionInstallConfig {
	return olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: e}}}
}

func deadline(minutes int32) func(*olmv1.ClusterExtension) {
	return func(e *olmv1.ClusterExtension) { e.Spec.ProgressDeadlineMinutes = minutes }
}

func ref(text string) func(*olmv1.ClusterCatalog) {
	return func(k *olmv1.ClusterCatalog) {
		k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: text}}
	}
}

func poll(text string, minutes int) func(*olmv1.ClusterCatalog) {
	return func(k *olmv1.ClusterCatalog) {
		ref(text)(k)
		k.Spec.Source.Image.PollIntervalMinutes = &minutes
	}
}
