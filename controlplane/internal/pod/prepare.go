package pod

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/remit-olm/remit/controlplane/internal/config"
	"github.com/remit-olm/remit/controlplane/internal/pki"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
	"github.com/remit-olm/remit/controlplane/internal/process"
)

// configRetry is the maximum time until a missing object is read again. Usually, a watch event triggers the read earlier.
const configRetry = 5 * time.Second

// prepare finds the executable and everything that the container needs, and waits for missing objects. It returns false if the
// image is not mapped.
func (r *runner) prepare(ctx context.Context) (*process.Spec, bool) {
	for {
		woken := r.worker.woken.C()
		exe, mapped, err := r.worker.host.Images.Lookup(r.spec.Image)
		if err == nil && !mapped {
			return nil, false
		}
		if err == nil {
			var spec *process.Spec
			if spec, err = r.processSpec(ctx, exe); err == nil {
				return spec, true
			}
		}
		if ctx.Err() != nil {
			return nil, true
		}
		klog.V(2).InfoS("Container is waiting", "pod", klog.KObj(r.worker.Pod()), "container", r.spec.Name, "err", err)
		r.state.waiting(reasonConfigError, err.Error())
		select {
		case <-ctx.Done():
			return nil, true
		case <-woken:
		case <-time.After(configRetry):
		}
	}
}

func (r *runner) processSpec(ctx context.Context, exe string) (*process.Spec, error) {
	w := r.worker
	w.mapped.Store(true)
	facts := w.facts()
	if err := w.volumes.Sync(ctx, facts); err != nil {
		return nil, err
	}
	base := w.host.baseEnv(facts.Pod, w.ip)
	for _, dir := range []string{base["HOME"], base["TMPDIR"]} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := w.volumes.Mount(r.spec, base)
	if err != nil {
		return nil, err
	}
	base["REMIT_ROOT"] = root
	if err := r.addKubeconfig(base, root); err != nil {
		return nil, err
	}
	reader := config.Reader{Client: w.host.Client, Namespace: facts.Pod.Namespace}
	env, err := podenv.Build(ctx, base, reader, facts, r.spec)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(w.host.LogFile(facts.Pod, r.spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &process.Spec{Path: exe, Args: podenv.Args(env, r.spec), Env: env.Strings(), Dir: root, Log: log}, nil
}

// addKubeconfig adds a kubeconfig to the environment if the Pod mounts a token. In-cluster configuration does not work,
// because the token is not at its well-known absolute path.
func (r *runner) addKubeconfig(env podenv.Env, root string) error {
	if !mountsToken(r.spec) {
		return nil
	}
	pod := r.worker.Pod()
	file := filepath.Join(r.worker.host.PodDir(pod), "roots", r.spec.Name+".kubeconfig")
	tokenFile := filepath.Join(root, TokenMount, "token")
	if err := pki.WriteTokenKubeconfig(file, r.worker.host.Cluster, tokenFile, pod.Namespace); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	env["KUBECONFIG"] = file
	return nil
}

func mountsToken(c *corev1.Container) bool {
	for _, m := range c.VolumeMounts {
		if path.Clean(m.MountPath) == TokenMount {
			return true
		}
	}
	return false
}
