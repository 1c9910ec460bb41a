package controlplane

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	readyFile  = "ready.json"
	imagesFile = "images"
)

// Instance is a control plane that is ready. Its fields come from the file that bin/controlplane writes when it is
// ready.
type Instance struct {
	// Kubeconfig is the path of a kubeconfig that authenticates as cluster-admin.
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// PodNet is the network of the Pods, 10.N.0.0/16. A process that listens on 127.N.x.y represents Pod 10.N.x.y. Values
	// of x from 200 on are never assigned to Pods, so tests can use them to simulate Pods.
	PodNet string `json:"podNet"`
	// Proxy is the URL of an HTTP proxy that reaches Pods and Services by IP and by NAME.NAMESPACE.svc.
	Proxy string `json:"proxy"`
	// Dir contains the logs: controlplane.log and pods/NAMESPACE_NAME_UID/CONTAINER.log.
	Dir string `json:"dir"`
	// AuditLog is the path of a file with one JSON line for each completed request, except reads by the components. A
	// watch is logged when it ends.
	AuditLog string `json:"auditLog"`
	// PID is the process ID of the control plane.
	PID int `json:"pid"`

	process *process // nil if another process started it
	release func()   // releases the shared control plane; nil if the control plane is private
	stop    sync.Once
}

// Config returns a new client configuration for cluster-admin, without client-side rate limits.
func (i *Instance) Config() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", i.Kubeconfig)
	if err != nil {
		// The control plane wrote the complete file before the Instance was created.
		panic(fmt.Sprintf("invalid announcement of the control plane in %s: %v", i.Dir, err))
	}
	config.QPS, config.Burst = -1, -1
	return config
}

// MapImage makes containers of the image run as processes of the executable. It applies to all containers that start
// afterwards. On a shared control plane, it also applies to other tests, so use a unique name.
func (i *Instance) MapImage(image, executable string) error {
	path, err := filepath.Abs(executable)
	if err != nil {
		return err
	}
	if image == "" || strings.ContainsAny(image, "=\n") || strings.Contains(path, "\n") {
		return fmt.Errorf("map image %q to %q: invalid name", image, path)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("map image %q: %w", image, err)
	}
	// A single write to a file opened for appending is not interleaved with writes by other processes.
	f, err := os.OpenFile(filepath.Join(i.Dir, imagesFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%s=%s\n", image, path); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// Stop stops a private control plane and returns when the control plane and all its Pods have exited. For a shared
// control plane, it only ends this process's use of it.
func (i *Instance) Stop() error {
	var err error
	i.stop.Do(func() {
		switch {
		case i.release != nil:
			i.release()
		case i.process != nil:
			err = i.process.stop()
		}
	})
	return err
}

// Done returns a channel that is closed when the control plane has exited. It returns nil if another process started
// the control plane; receiving from a nil channel blocks forever.
func (i *Instance) Done() <-chan struct{} {
	if i.process == nil {
		return nil
	}
	return i.process.done
}

// read returns the control plane whose state is in dir, or an error if the control plane is not ready yet.
func read(dir string) (*Instance, error) {
	content, err := os.ReadFile(filepath.Join(dir, readyFile))
	if err != nil {
		return nil, err
	}
	var i Instance
	if err := json.Unmarshal(content, &i); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, readyFile), err)
	}
	return &i, nil
}
