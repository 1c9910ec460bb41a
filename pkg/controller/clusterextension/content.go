package clusterextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/resolver"
)

// The content of the installed version is kept in a ConfigMap in Remit's namespace, so that its objects are restored
// although no catalog provides it (docs/adr/0073). The proof of the ConfigMap covers keyBundle, which contains a hash of
// keyContent: whoever else can write the ConfigMap can remove the content, but cannot choose another one.
const (
	keyBundle  = "bundle.json"
	keyContent = "content"
	// maxKept is the maximum size of keyContent, in bytes. A ConfigMap can contain 1 MiB.
	maxKept = 900 << 10
	// keptKey is the key of a content that was read from the ConfigMap; with the name of the bundle, it identifies that content.
	keptKey = "kept "
)

// Proofs signs and verifies the proofs of objects. *proof.Keys implements it.
type Proofs interface {
	ownerutil.Proofs
	// Proves is like Check, but never accepts an object without a proof.
	Proves(obj client.Object, holder string) bool
}

// contentID identifies the content of a bundle.
type contentID struct {
	Package string `json:"package"`
	Name    string `json:"name"`
	Version string `json:"version"`
	// Digest is the digest of the manifests, and Text the hash of the text in keyContent.
	Digest string `json:"digest"`
	Text   string `json:"text,omitempty"`
}

func (c contentID) encode() string {
	text, _ := json.Marshal(c) // cannot fail for strings
	return string(text)
}

// keeping describes the last attempt to keep content. problem is the reason for users why it was not kept; "" after a success.
type keeping struct {
	bundle, problem string
	// retryAt is the time of the next attempt, after delay; zero means that none is due.
	retryAt time.Time
	delay   time.Duration
}

// ContentName returns the name of the ConfigMap, in Remit's namespace, with the content of what a ClusterExtension has installed.
func ContentName(extension string) string { return names.ContentPrefix + shortName(extension) }

// keeper is the apply.Owner of the ConfigMap with the content of an extension.
type keeper struct {
	proofs Proofs
	uid    types.UID
}

// holder is what the proof applies to: the extension, and what the ConfigMap contains.
func (k keeper) holder(obj *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(obj.Object, "data", keyBundle)
	return ownerutil.Commitment("content of a ClusterExtension", string(k.uid), text)
}

// Check implements apply.Owner.
func (k keeper) Check(live client.Object) error {
	if obj, ok := live.(*unstructured.Unstructured); !ok || !k.proofs.Proves(obj, k.holder(obj)) {
		return errors.New("it was changed, or was not created by Remit for this ClusterExtension")
	}
	return nil
}

// Prove implements apply.Owner.
func (k keeper) Prove(desired, live *unstructured.Unstructured) error {
	return k.proofs.Sign(desired, k.holder(desired), live)
}

func (s *run) keeper() keeper { return keeper{s.Proofs, s.ext.UID} }

// contentMap returns the ConfigMap with these entries.
func (s *run) contentMap(data map[string]string) *unstructured.Unstructured {
	return kit.Report{Namespace: s.Namespace, Name: ContentName(s.ext.Name), Owner: s.owner.Reference(), Files: data}.Object()
}

// keepContent keeps the content of the version that is now installed. It returns why this was not possible, for users, or "".
func (s *run) keepContent(ctx context.Context) string {
	is := s.memory.Get(s.key())
	if s.resolved.Bundle == nil || !is.content.isOf(s.bundle) {
		return is.keeping.problem // this is the kept content
	}
	id := contentID{Package: s.resolved.Package.Name, Name: s.bundleName(), Version: s.version(), Digest: is.content.digest}
	now := keeping{bundle: id.encode()}
	if left := is.keeping.retryAt.Sub(s.Clock.Now()); is.keeping.bundle == now.bundle && (is.keeping.retryAt.IsZero() || left > 0) {
		s.wakeAfter(left)
		return is.keeping.problem
	}
	err := s.writeContent(ctx, id)
	switch {
	case errors.Is(err, errTooLarge):
		now.problem = err.Error()
	case apply.IsCollision(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		now.problem, now.delay = "the content could not be kept: "+status.Text(status.OneLine(err.Error())), longer(is.keeping.delay)
		now.retryAt = s.Clock.Now().Add(now.delay)
		s.wakeAfter(now.delay)
	case errors.Is(err, catalog.ErrNoContent):
		return "" // the image cannot be read at this time; whatever wakes the extension repeats the attempt
	case err != nil:
		s.unpublished = errors.Join(s.unpublished, err)
		return ""
	}
	s.memory.Change(s.key(), func(is *remembered) { is.keeping = now })
	return now.problem
}

var errTooLarge = fmt.Errorf("the content of the bundle is larger than %d KiB when compressed, so it is not kept; without the catalog, objects are not restored after a restart", maxKept>>10)

// writeContent writes the ConfigMap unless it has this content.
func (s *run) writeContent(ctx context.Context, id contentID) error {
	live, err := apply.Live(ctx, s.Live, s.contentMap(nil))
	if err != nil {
		return err
	}
	if live != nil {
		if has, _, err := s.decodeContent(live); err == nil {
			if has.Text = ""; has == id {
				return nil
			}
		}
	}
	raw, err := s.contentOf(ctx, s.resolved.Channel, s.resolved.Bundle)
	if err != nil {
		return err
	}
	if raw.Digest() != id.Digest {
		return catalog.ErrNoContent // the catalog has changed, which wakes the extension
	}
	text, err := resolver.Pack([]*catalog.Content{raw}, maxKept)
	switch {
	case err != nil:
		return err
	case text == "":
		return errTooLarge
	}
	id.Text = ownerutil.Commitment(text)
	desired := s.contentMap(map[string]string{keyBundle: id.encode(), keyContent: text})
	_, _, err = apply.From(ctx, s.Client, live, desired, s.keeper())
	return err
}

func dataOf(obj *unstructured.Unstructured, key string) string {
	text, _, _ := unstructured.NestedString(obj.Object, "data", key)
	return text
}

// installedContent returns the content of the installed version without the catalog: what this program remembers, or else what
// was kept. If there is none, why is the reason.
func (s *run) installedContent(ctx context.Context) (b *bundle.Bundle, why string, err error) {
	is := s.ext.Status.Install
	if is == nil {
		return nil, "no version is installed", nil
	}
	if known := s.memory.Change(s.key(), func(m *remembered) { m.restoreContent(is.Bundle.Name) }).content; known != nil && known.name == is.Bundle.Name {
		return known.bundle, "", nil
	}
	c, why, err := s.keptContent(ctx, is.Bundle)
	if c == nil {
		return nil, why, err
	}
	s.memory.Change(s.key(), func(m *remembered) { m.content = c })
	return c.bundle, "", nil
}

// keptContent reads the content of the installed version from the ConfigMap. If it cannot be used, why is the reason.
func (s *run) keptContent(ctx context.Context, installed olmv1.BundleMetadata) (c *content, why string, err error) {
	if err := s.awaitTurn(keptKey + installed.Name); err != nil {
		return nil, "", err
	}
	live, err := apply.Live(ctx, s.Live, s.contentMap(nil))
	switch {
	case err != nil:
		return nil, "", err
	case live == nil:
		return nil, fmt.Sprintf("its content was not kept in ConfigMap %s/%s", s.Namespace, ContentName(s.ext.Name)), nil
	}
	b, cost, err := s.readContent(ctx, live, installed)
	switch {
	case isCrowded(err), err != nil && ctx.Err() != nil:
		return nil, "", err
	case err != nil:
		return nil, fmt.Sprintf("%s is not used: %v", apply.Describe(live), err), nil //nolint:nilerr // the status reports the error
	}
	return &content{key: keptKey, name: installed.Name, bundle: b, cost: cost}, "", nil
}

// readContent returns the content of the installed version from the ConfigMap.
func (s *run) readContent(ctx context.Context, live *unstructured.Unstructured, installed olmv1.BundleMetadata) (*bundle.Bundle, int64, error) {
	id, text, err := s.decodeContent(live)
	if err != nil {
		return nil, 0, err
	}
	pkg := ""
	if from := s.ext.Spec.Source.Catalog; from != nil {
		pkg = from.PackageName
	}
	if id.Package != pkg || id.Name != installed.Name || id.Version != installed.Version {
		return nil, 0, fmt.Errorf("it contains bundle %q, version %s, which is not the installed one", id.Name, id.Version)
	}
	contents, err := resolver.Unpack(text, 1)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", keyContent, err)
	}
	return s.parse(ctx, keptKey+installed.Name, contents[0])
}

// decodeContent returns the entries of the ConfigMap if its proof covers them.
func (s *run) decodeContent(live *unstructured.Unstructured) (id contentID, text string, err error) {
	if err := s.keeper().Check(live); err != nil {
		return id, "", err
	}
	if err := json.Unmarshal([]byte(dataOf(live, keyBundle)), &id); err != nil {
		return id, "", fmt.Errorf("read %s: %w", keyBundle, err)
	}
	if text = dataOf(live, keyContent); ownerutil.Commitment(text) != id.Text {
		return id, "", errors.New("its content was changed")
	}
	return id, text, nil
}
