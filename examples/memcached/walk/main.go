// Command walk runs the example operator on the embedded control plane and shows what it does when permissions are
// granted and revoked. Each line that begins with ✓ reports a check that passed. If a check fails, the command prints
// what it found instead and exits with code 1.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/examples/memcached/api"
	"github.com/remit-olm/remit/test/env/controlplane"
)

//go:embed manifests.yaml
var manifests []byte

// stepTimeout is the timeout of each step.
const stepTimeout = 2 * time.Minute

func main() {
	bin := flag.String("bin", "bin", "directory of the built programs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "✗", err)
		os.Exit(1) //nolint:gocritic // stop need not run: the process exits
	}
}

func run(ctx context.Context, bin string) (err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	fmt.Println("Start a control plane, with memcached and the operator as processes")
	plane, err := controlplane.Launch(ctx, controlplane.Options{Images: map[string]string{
		"remit.dev/example-memcached:dev": filepath.Join(bin, "example-memcached"),
		"memcached:1.6-alpine":            filepath.Join(bin, "example-memcached-standin"),
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return err
	}
	c, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	w := &walk{Client: c}
	for _, step := range []func(context.Context) error{w.install, w.create, w.deny, w.grant, w.revoke, w.remove} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// walk contains the steps of the demonstration, numbered as in the proposal for RBAC-based informers.
type walk struct {
	client.Client
}

// install performs steps 1 to 3.
func (w *walk) install(ctx context.Context) error {
	fmt.Println("\nSteps 1-3: install the operator, with permissions in allowed-one and allowed-two")
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Create(ctx, obj)
		}
		if err != nil {
			return err
		}
	}
	return w.eventually(ctx, "the operator runs", func() error {
		d := &appsv1.Deployment{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: "scoped-memcached-operator-system", Name: "memcached-operator"}, d); err != nil {
			return err
		}
		return want(d.Status.AvailableReplicas == 1, "%d Pods are available", d.Status.AvailableReplicas)
	})
}

// create performs steps 4 to 6.
func (w *walk) create(ctx context.Context) error {
	fmt.Println("\nSteps 4-6: create a Memcached in each of these namespaces")
	for namespace, size := range map[string]int32{"allowed-one": 2, "allowed-two": 3} {
		if err := w.memcached(ctx, namespace, size); err != nil {
			return err
		}
	}
	for namespace, size := range map[string]int32{"allowed-one": 2, "allowed-two": 3} {
		if err := w.runs(ctx, namespace, size); err != nil {
			return err
		}
	}
	return nil
}

// deny performs step 7.
func (w *walk) deny(ctx context.Context) error {
	fmt.Println("\nStep 7: create a Memcached where the operator has no permissions")
	if err := w.memcached(ctx, "denied", 1); err != nil {
		return err
	}
	if err := w.fails(ctx); err != nil {
		return err
	}
	return w.unaffected(ctx, 3)
}

// grant performs step 8.
func (w *walk) grant(ctx context.Context) error {
	fmt.Println("\nStep 8: grant the permissions")
	started := time.Now()
	if err := w.Create(ctx, binding()); err != nil {
		return err
	}
	if err := w.runs(ctx, "denied", 1); err != nil {
		return err
	}
	fmt.Printf("  (%.1f s after the grant; nothing was restarted or edited)\n", time.Since(started).Seconds())
	return nil
}

// revoke performs step 9.
func (w *walk) revoke(ctx context.Context) error {
	fmt.Println("\nStep 9: revoke the permissions, and change the Memcached")
	if err := w.Delete(ctx, binding()); err != nil {
		return err
	}
	if err := w.resize(ctx, "denied", 2); err != nil {
		return err
	}
	if err := w.fails(ctx); err != nil {
		return err
	}
	return w.unaffected(ctx, 1)
}

// remove performs step 10.
func (w *walk) remove(ctx context.Context) error {
	fmt.Println("\nStep 10: delete the Memcached")
	m := &api.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: "denied", Name: name("denied")}}
	if err := w.Delete(ctx, m); err != nil {
		return err
	}
	if err := w.eventually(ctx, "the Memcached is deleted; no finalizer waits for the operator", func() error {
		return gone(w.Get(ctx, client.ObjectKeyFromObject(m), &api.Memcached{}))
	}); err != nil {
		return err
	}
	if err := w.eventually(ctx, "the Deployment is deleted", func() error {
		return gone(w.Get(ctx, client.ObjectKeyFromObject(m), &appsv1.Deployment{}))
	}); err != nil {
		return err
	}
	return w.unaffected(ctx, 2)
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("the object still exists (%w)", err)
}

func name(namespace string) string { return "memcached-sample-" + namespace }

func binding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "denied", Name: "memcached-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scoped-operator-needs"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "scoped-memcached-operator-system", Name: "memcached-operator"}},
	}
}

func (w *walk) memcached(ctx context.Context, namespace string, size int32) error {
	return w.Create(ctx, &api.Memcached{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(namespace)}, Spec: api.MemcachedSpec{Size: size}})
}

func (w *walk) resize(ctx context.Context, namespace string, size int32) error {
	m := &api.Memcached{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name(namespace)}, m); err != nil {
		return err
	}
	before := m.DeepCopyObject().(*api.Memcached)
	m.Spec.Size = size
	return w.Patch(ctx, m, client.MergeFrom(before))
}

// runs checks that a Memcached and its Deployment have the given size.
func (w *walk) runs(ctx context.Context, namespace string, size int32) error {
	key := client.ObjectKey{Namespace: namespace, Name: name(namespace)}
	return w.eventually(ctx, fmt.Sprintf("%s: Succeeded, %d of %d Pods run", key, size, size), func() error {
		m, d := &api.Memcached{}, &appsv1.Deployment{}
		if err := errors.Join(w.Get(ctx, key, m), w.Get(ctx, key, d)); err != nil {
			return err
		}
		return want(m.Status.State.Status == "Succeeded" && len(m.Status.Nodes) == int(size) && d.Status.AvailableReplicas == size,
			"%s %q with nodes %v, and %d available Pods", m.Status.State.Status, m.Status.State.Message, m.Status.Nodes, d.Status.AvailableReplicas)
	})
}

// fails checks that the Memcached in the namespace "denied" reports which permissions are missing.
func (w *walk) fails(ctx context.Context) error {
	key := client.ObjectKey{Namespace: "denied", Name: name("denied")}
	m := &api.Memcached{}
	err := w.eventually(ctx, key.String()+": Failed, and reports what is missing:", func() error {
		if err := w.Get(ctx, key, m); err != nil {
			return err
		}
		message := m.Status.State.Message
		return want(m.Status.State.Status == "Failed" && strings.Contains(message, "deployments.apps") && strings.Contains(message, "denied"),
			"%s %q", m.Status.State.Status, message)
	})
	if err == nil {
		fmt.Println("   ", m.Status.State.Message)
	}
	return err
}

// unaffected checks that the operator still manages the other namespaces.
func (w *walk) unaffected(ctx context.Context, size int32) error {
	if err := w.resize(ctx, "allowed-one", size); err != nil {
		return err
	}
	return w.runs(ctx, "allowed-one", size)
}

func want(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("found "+format, args...)
}

// eventually waits until the check succeeds, and then prints the line. It returns an error if a step takes longer than
// stepTimeout.
func (w *walk) eventually(ctx context.Context, line string, check func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, stepTimeout, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", line, errors.Join(err, last))
	}
	fmt.Println("✓", line)
	return nil
}
