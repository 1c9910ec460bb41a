package env

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// metricsPort is where the programs' own counters are served.
const metricsPort = 9440

// reconciled is a line of controller-runtime's counter of reconciles.
var reconciled = regexp.MustCompile(`^controller_runtime_reconcile_total\{controller="([^"]+)",result="[^"]+"\} (\S+)$`)

// Reconciles returns how often each of Remit's controllers has looked at something, whatever came of it.
func (c *Cluster) Reconciles(ctx context.Context) (map[string]int, error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(names.DefaultNamespace)); err != nil {
		return nil, err
	}
	out := map[string]int{}
	for i := range pods.Items {
		if err := c.countReconciles(ctx, pods.Items[i].Status.PodIP, out); err != nil {
			return nil, fmt.Errorf("metrics of Pod %s: %w", pods.Items[i].Name, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no metrics of reconciles in namespace %s", names.DefaultNamespace)
	}
	return out, nil
}

func (c *Cluster) countReconciles(ctx context.Context, ip string, out map[string]int) error {
	proxy, err := url.Parse(c.Proxy)
	if err != nil {
		return err
	}
	through := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	address := "http://" + net.JoinHostPort(ip, strconv.Itoa(metricsPort)) + "/metrics"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := through.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", address, resp.Status)
	}
	return sumReconciles(resp.Body, out)
}

func sumReconciles(metrics io.Reader, out map[string]int) error {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		found := reconciled.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		out[found[1]] += int(n)
	}
	return lines.Err()
}
