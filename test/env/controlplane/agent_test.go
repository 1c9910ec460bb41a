package controlplane_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/remit-olm/remit/test/env/controlplane"
)

// agentMode is an environment variable. If it is set in a Pod, this test binary runs as the program of the Pod.
const agentMode = "AGENT_MODE"

// agentReport is the agent's response to /report.
type agentReport struct {
	PID, Child int
	Args       []string
	Env        map[string]string
	Secret     string // content of the mounted Secret
	OwnMap     string // response for a ConfigMap that the Pod's account may read
	Secrets    string // response when listing Secrets, which the account is not allowed to do
}

func TestMain(m *testing.M) {
	switch mode := os.Getenv(agentMode); mode {
	case "":
		os.Exit(m.Run())
	case "serve":
		fmt.Println("agent is up")
		if err := serveAgent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "crash":
		fmt.Println("agent crashes")
		os.Exit(3)
	case "complete":
		fmt.Println("agent completes")
	case "join":
		joinAgent()
	}
}

// joinAgent runs in a separate process. It joins the shared control plane, prints the result, and exits when its stdin
// is closed.
func joinAgent() {
	i, err := controlplane.Join(context.Background(), controlplane.Options{Linger: time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(i.PID)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func serveAgent() error {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		report := newReport(r.Context())
		report.Child = child.Process.Pid
		_ = json.NewEncoder(w).Encode(report)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if strings.TrimSpace(mounted("gate/open")) == "no" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		if exists(filepath.Join(os.TempDir(), "sick")) {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/infect", func(http.ResponseWriter, *http.Request) {
		_ = os.WriteFile(filepath.Join(os.TempDir(), "sick"), nil, 0o600)
	})
	mux.HandleFunc("/apis/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`,
			strings.TrimPrefix(r.URL.Path, "/apis/"))
	})
	mux.HandleFunc("/validate", validate)
	// The agent is healthy again after a restart.
	_ = os.Remove(filepath.Join(os.TempDir(), "sick"))
	ip := os.Getenv("REMIT_POD_LISTEN_IP")
	if cert := mountPath("certs"); exists(cert) {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "8443"))
		if err != nil {
			return err
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(cert, "tls.crt"), filepath.Join(cert, "tls.key"))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
		go func() { _ = server.ServeTLS(l, "", "") }()
	}
	return http.ListenAndServe(net.JoinHostPort(ip, "8080"), mux)
}

func newReport(ctx context.Context) agentReport {
	r := agentReport{PID: os.Getpid(), Args: os.Args[1:], Env: map[string]string{}, Secret: mounted("secret/password")}
	for _, e := range os.Environ() {
		k, v, _ := strings.Cut(e, "=")
		r.Env[k] = v
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		r.OwnMap = err.Error()
		return r
	}
	client := kubernetes.NewForConfigOrDie(config)
	namespace := os.Getenv("NAMESPACE")
	if m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{}); err != nil {
		r.OwnMap = err.Error()
	} else {
		r.OwnMap = m.Data["color"]
	}
	_, err = client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	r.Secrets = string(apierrors.ReasonForError(err))
	return r
}

// validate is an admission webhook that denies every object with the label deny=true.
func validate(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var object metav1.PartialObjectMetadata
	_ = json.Unmarshal(review.Request.Object.Raw, &object)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: object.Labels["deny"] != "true"}
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Message: "denied by the agent"}
	}
	_ = json.NewEncoder(w).Encode(review)
}

func mountPath(path string) string { return filepath.Join(os.Getenv("REMIT_ROOT"), path) }

func mounted(path string) string {
	content, _ := os.ReadFile(mountPath(path))
	return string(content)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
