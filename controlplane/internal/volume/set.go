package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/controlplane/internal/config"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
)

// Set contains the volumes of one Pod.
type Set struct {
	reader config.Reader
	dir    string

	mu     sync.Mutex
	tokens map[tokenKey]*token
}

// NewSet returns the set of a Pod whose files are in dir.
func NewSet(reader config.Reader, dir string) *Set {
	return &Set{reader: reader, dir: dir, tokens: map[tokenKey]*token{}}
}

// Sync updates every volume. If an object that the Pod refers to does not exist, it returns a *config.Missing.
func (s *Set) Sync(ctx context.Context, f podenv.Facts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range f.Pod.Spec.Volumes {
		v := &f.Pod.Spec.Volumes[i]
		dir := s.volumeDir(v.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		want, err := s.payload(ctx, f, v)
		if err != nil {
			return fmt.Errorf("volume %q: %w", v.Name, err)
		}
		if want == nil {
			continue // the volume has no content; its directory is sufficient
		}
		if err := publish(dir, want); err != nil {
			return fmt.Errorf("volume %q: %w", v.Name, err)
		}
	}
	return nil
}

// Mount creates a directory with links to the container's mounts and returns its path. Outer mounts come first, so that
// /a/b is inside /a.
func (s *Set) Mount(c *corev1.Container, env podenv.Env) (string, error) {
	root := filepath.Join(s.dir, "roots", c.Name)
	// The directory is rebuilt at each start. It contains only links; the content is in the volumes.
	if err := os.RemoveAll(root); err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	mounts := slices.Clone(c.VolumeMounts)
	slices.SortStableFunc(mounts, func(a, b corev1.VolumeMount) int { return len(a.MountPath) - len(b.MountPath) })
	for _, m := range mounts {
		if err := s.mount(root, m, env); err != nil {
			return "", fmt.Errorf("mount %q: %w", m.MountPath, err)
		}
	}
	return root, nil
}

func (s *Set) mount(root string, m corev1.VolumeMount, env podenv.Env) error {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = env.Expand(m.SubPathExpr)
	}
	source := s.volumeDir(m.Name)
	if sub != "" {
		source = filepath.Join(source, filepath.Clean("/"+sub))
		if _, err := os.Stat(source); os.IsNotExist(err) {
			if err := os.MkdirAll(source, 0o755); err != nil {
				return err
			}
		}
	}
	target := filepath.Join(root, filepath.Clean("/"+m.MountPath))
	if target == root {
		return fmt.Errorf("the root itself cannot be a mount")
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if current, err := os.Readlink(target); err == nil && current == source {
		return nil // a nested mount created for another container of the Pod
	}
	return os.Symlink(source, target)
}

// Remove deletes the Pod's files, except its logs.
func (s *Set) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range []string{"roots", "volumes", "home", "tmp"} {
		if err := os.RemoveAll(filepath.Join(s.dir, d)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) volumeDir(name string) string {
	return filepath.Join(s.dir, "volumes", strings.ReplaceAll(name, string(filepath.Separator), "_"))
}
