package clustercatalog

import (
	"context"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
)

// access implements bundleimage.Access. All images are read with the same credentials.
type access struct {
	keychain authn.Keychain
	clock    clock.Clock
}

func (a *access) image() image.Access {
	return image.Access{Keychain: a.keychain, Anywhere: true}
}

// Access implements bundleimage.Access. ClusterCatalogs name no pull secrets.
func (a *access) Access(context.Context, types.NamespacedName, []string, kit.Retry) (image.Access, error) {
	return a.image(), nil
}

// Wait implements bundleimage.Access.
func (a *access) Wait(ctx context.Context, _ string, pull kit.Retry, pause time.Duration) (next time.Duration, ok bool) {
	asked, ok := pull.Sleep(ctx, a.clock, wait.Jitter(pause, pollJitter))
	return kit.NextPause(pause, asked), ok
}

// Forget implements bundleimage.Access. Nothing is tracked.
func (*access) Forget(kit.Retry) {}
