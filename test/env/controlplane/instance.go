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

// Instance is a control plane that is ready. Its fields are what bin/controlplane announces.
type Instance struct {
	// Kubeconfig is a file that authenticates as cluster-admin.
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// PodNet is the network of the Pods, 10.N.0.0/16. A process that listens on 127.N.x.y represents Pod 10.N.x.y; x
	// from 200 on is never assigned to a Pod, so that tests can simulate one there.
	PodNet string `json:"podNet"`
	// Proxy is the URL of an HTTP proxy that reaches Pods and Services by IP and by NAME.NAMESPACE.svc.
	Proxy string `json:"proxy"`
	// Dir has the logs: controlplane.log, pods/NAMESPACE_NAME_UID/CONTAINER.log.
	Dir string `json:"dir"`
	// AuditLog has one JSON line for each completed request, except reads by the components. A watch is logged when it
	// ends.
	AuditLog string `json:"auditLog"`
	// PID is the process of the control plane.
	PID int `json:"pid"`

	process *process // nil if another process started it
	release func()   // releases the share; nil if it is private
	stop    sync.Once
}

// Config returns a new client configuration for cluster-admin, without client-side rate limits.
func (i *Instance) Config() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", i.Kubeconfig)
	if err != nil {
		// The control plane wrote the complete file before the Instance was created.
		panic(fmt.Sprintf("control plane in %s: %v", i.Dir, err))
	}
	config.QPS, config.Burst = -1, -1
	return config
}

// MapImage makes containers of the image run as processes of the executable. It applies to containers that start from
// now on, as long as the control plane runs. On a shared one other tests see it too, so use a unique name.
func (i *Instance) MapImage(image, executable string) error {
	path, err := filepath.Abs(executable)
	if err != nil {
		return err
	}
	if image == "" || strings.ContainsAny(image, "=\n") || strings.Contains(path, "\n") {
		return fmt.Errorf("map image %q to %q: not a name that can be mapped", image, path)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("map image %q: %w", image, err)
	}
	// One write to a file opened for appending is not interleaved with that of another process.
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

// Stop stops a private control plane and returns when it and all its Pods have ended; a shared one only loses this
// user.
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

// Done is closed when the control plane has ended. It is nil, and blocks forever, if another process started it.
func (i *Instance) Done() <-chan struct{} {
	if i.process == nil {
		return nil
	}
	return i.process.done
}

// read returns the announcement of the control plane in dir; it does not exist before the control plane is usable.
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
