// Package probe checks whether a Pod process has started, is ready and is alive.
//
// It follows the kubelet's rules with one addition: until the first success, a probe also runs several times a second, because
// the default period of 10 s would dominate a test's duration. Failures of these extra attempts do not count.
package probe

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	k8sprobe "k8s.io/kubernetes/pkg/probe"
	grpcprobe "k8s.io/kubernetes/pkg/probe/grpc"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"
)

// eagerPeriod is the time between attempts before the first success.
const eagerPeriod = 200 * time.Millisecond

// Target is the process of a container.
type Target struct {
	Container *corev1.Container
	// Host is the loopback address on which the process listens.
	Host string
}

// Watch probes the target until the context is done or changed returns false. It calls changed with true after
// successThreshold consecutive successes and with false after failureThreshold consecutive failures.
func Watch(ctx context.Context, t Target, p *corev1.Probe, changed func(healthy bool) bool) {
	if !pause(ctx, seconds(p.InitialDelaySeconds, 0)) {
		return
	}
	period := seconds(p.PeriodSeconds, 10*time.Second)
	tracker := newTracker(p)
	counted := time.Now().Add(-period)
	for eager := true; ; {
		ok := try(ctx, t, p)
		if ctx.Err() != nil {
			return
		}
		if due := time.Since(counted) >= period; ok || due {
			if due {
				counted = time.Now()
			}
			verdict := tracker.add(ok)
			if verdict == healthy {
				eager = false
			}
			if verdict != undecided && !changed(verdict == healthy) {
				return
			}
		}
		wait := period
		if eager {
			wait = min(period, eagerPeriod)
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// try runs the probe once and reports whether it succeeded. An exec probe always succeeds, because there is no
// container in which to run it.
func try(ctx context.Context, t Target, p *corev1.Probe) bool {
	timeout := seconds(p.TimeoutSeconds, time.Second)
	var result k8sprobe.Result
	var message string
	var err error
	switch {
	case p.HTTPGet != nil:
		result, message, err = httpGet(ctx, t, p.HTTPGet, timeout)
	case p.TCPSocket != nil:
		var port int
		if port, err = k8sprobe.ResolveContainerPort(p.TCPSocket.Port, t.Container); err == nil {
			result, message, err = tcpprobe.New().Probe(hostOr(p.TCPSocket.Host, t.Host), port, timeout)
		}
	case p.GRPC != nil:
		service := ""
		if p.GRPC.Service != nil {
			service = *p.GRPC.Service
		}
		result, message, err = grpcprobe.New().Probe(t.Host, service, int(p.GRPC.Port), timeout)
	default:
		return true
	}
	klog.V(4).InfoS("Probed", "container", t.Container.Name, "result", result, "message", message, "err", err)
	return err == nil && (result == k8sprobe.Success || result == k8sprobe.Warning)
}

func httpGet(ctx context.Context, t Target, action *corev1.HTTPGetAction, timeout time.Duration) (k8sprobe.Result, string, error) {
	request, err := httpprobe.NewRequestForHTTPGetAction(action, t.Container, t.Host, "probe")
	if err != nil {
		return k8sprobe.Unknown, "", err
	}
	return httpprobe.New(false).Probe(request.WithContext(ctx), timeout)
}

func hostOr(host, fallback string) string {
	if host == "" {
		return fallback
	}
	return host
}

func seconds(n int32, fallback time.Duration) time.Duration {
	if n <= 0 {
		return fallback
	}
	return time.Duration(n) * time.Second
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
