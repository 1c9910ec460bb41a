package pod

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/remit-olm/remit/controlplane/internal/image"
	"github.com/remit-olm/remit/controlplane/internal/network"
	"github.com/remit-olm/remit/controlplane/internal/pki"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
	"github.com/remit-olm/remit/controlplane/internal/process"
)

// TokenMount is the path at which the ServiceAccount token is mounted in every Pod that has one.
const TokenMount = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a token

// Host contains what all Pods of the node share. All fields are required.
type Host struct {
	Client      kubernetes.Interface
	Images      image.Map
	Launcher    *process.Launcher
	Net         network.PodNet
	Cluster     pki.Cluster
	Dir         string // contains the directories of all Pods
	Allocatable corev1.ResourceList
}

// PodDir returns the directory of one Pod.
func (h *Host) PodDir(pod *corev1.Pod) string {
	return filepath.Join(h.Dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// LogFile returns the path of a container's log.
func (h *Host) LogFile(pod *corev1.Pod, container string) string {
	return filepath.Join(h.PodDir(pod), filepath.Base(container)+".log")
}

// baseEnv returns the environment that every process gets. The Pod spec can override every variable.
func (h *Host) baseEnv(pod *corev1.Pod, ip netip.Addr) podenv.Env {
	dir := h.PodDir(pod)
	api, proxy := h.Net.APIAddr(), "http://"+h.Net.ProxyAddr().String()
	env := podenv.Env{
		"PATH":                    os.Getenv("PATH"),
		"HOSTNAME":                pod.Name,
		"HOME":                    filepath.Join(dir, "home"),
		"TMPDIR":                  filepath.Join(dir, "tmp"),
		"REMIT_POD_LISTEN_IP":     h.Net.Local(ip).String(),
		"KUBERNETES_SERVICE_HOST": api.Addr().String(),
		"KUBERNETES_SERVICE_PORT": strings.TrimPrefix(api.String(), api.Addr().String()+":"),
		"HTTP_PROXY":              proxy,
		"HTTPS_PROXY":             proxy,
		"NO_PROXY":                "127.0.0.0/8,localhost",
	}
	// If coverage data is collected, product binaries that run as Pods write theirs to the same directory.
	if dir, ok := os.LookupEnv("GOCOVERDIR"); ok {
		env["GOCOVERDIR"] = dir
	}
	return env
}
