package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/klog/v2"
)

const (
	followInterval = 100 * time.Millisecond
	headerTimeout  = 10 * time.Second
)

// LogServer serves GET /containerLogs/NAMESPACE/POD/CONTAINER with the parameters follow, tailLines and limitBytes. It
// ignores timestamps, and also previous, because the log of a container spans its restarts.
type LogServer struct {
	Pods *Pods
	// Certificate is the server's certificate.
	Certificate tls.Certificate
	// ClientCAs are the CAs of clients; Client is the only user with access.
	ClientCAs *x509.CertPool
	Client    string
}

// Serve handles requests on the listener until it is closed.
func (s *LogServer) Serve(l net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Handler: s.authenticated(mux), ReadHeaderTimeout: headerTimeout, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{s.Certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.ClientCAs,
		MinVersion: tls.VersionTLS12,
	}}
	go func() { _ = server.ServeTLS(l, "", "") }()
}

func (s *LogServer) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != s.Client {
			http.Error(w, "only the API server has access", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *LogServer) logs(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	pod, _, err := s.Pods.Lookup(namespace, name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	f, err := os.Open(s.Pods.host.LogFile(pod, r.PathValue("container"))) //nolint:gosec // only the base name is used
	if os.IsNotExist(err) {
		return // the container is simulated or has not started yet
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = f.Close() }()
	query := r.URL.Query()
	if lines, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		if err := seekTail(f, lines); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if limit, err := strconv.ParseInt(query.Get("limitBytes"), 10, 64); err == nil {
		_, _ = io.CopyN(w, f, limit)
		return
	}
	follow := query.Get("follow") == "true"
	if err := s.stream(r.Context(), w, f, follow, func() bool {
		current, live, err := s.Pods.Lookup(namespace, name)
		return err == nil && live && current.UID == pod.UID
	}); err != nil {
		klog.V(2).InfoS("Log reader disconnected", "pod", klog.KObj(pod), "err", err)
	}
}

// stream copies the existing log. If follow is set, it also copies new output while the Pod runs and the reader is
// connected.
func (s *LogServer) stream(ctx context.Context, w http.ResponseWriter, f io.Reader, follow bool, live func() bool) error {
	flusher := http.NewResponseController(w)
	for tick := time.Tick(followInterval); ; {
		last := !follow || !live()
		if _, err := io.Copy(w, f); err != nil || last {
			return err
		}
		if err := flusher.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// seekTail seeks to the beginning of the given number of last lines. It reads the file backward in blocks.
func seekTail(f *os.File, lines int) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || lines <= 0 {
		return err
	}
	block := make([]byte, 32*1024)
	found := 0
	for end := size; end > 0; {
		begin := max(0, end-int64(len(block)))
		part := block[:end-begin]
		if _, err := f.ReadAt(part, begin); err != nil && err != io.EOF {
			return err
		}
		if end == size {
			part = bytes.TrimSuffix(part, []byte("\n")) // a final newline does not begin another line
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' {
				continue
			}
			if found++; found == lines {
				_, err := f.Seek(begin+int64(i)+1, io.SeekStart)
				return err
			}
		}
		end = begin
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
