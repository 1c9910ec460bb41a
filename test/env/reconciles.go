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
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// metricsPort is the port on which Remit's programs serve metrics.
const metricsPort = 9440

// healthPorts are the ports on which Remit's programs serve their health, by the names of their ServiceAccounts.
var healthPorts = map[string]int{names.ServiceAccountCatalog: 9441, names.ServiceAccountOLM: 9442, names.ServiceAccountExtension: 9443}

// reconciled matches controller-runtime's counter of reconciles.
var reconciled = regexp.MustCompile(`^controller_runtime_reconcile_total\{controller="([^"]+)",result="[^"]+"\} (\S+)$`)

// Reconciles returns the number of reconciles of each of Remit's controllers, regardless of the result.
func (c *Cluster) Reconciles(ctx context.Context) (map[string]int, error) {
	counted, err := c.Measured(ctx, "", reconciled)
	if err == nil && len(counted) == 0 {
		err = fmt.Errorf("no reconcile metrics in namespace %s", c.Home)
	}
	out := map[string]int{}
	for controller, n := range counted {
		out[controller] = int(n)
	}
	return out, err
}

// Measured sums up metrics of one of Remit's programs, or of both if program is "". The pattern's first group is the
// key, and its second group is the number to add.
func (c *Cluster) Measured(ctx context.Context, program string, line *regexp.Regexp) (map[string]float64, error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(c.Home)); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i := range pods.Items {
		if !strings.HasPrefix(pods.Items[i].Name, program) {
			continue
		}
		if err := c.measure(ctx, pods.Items[i].Status.PodIP, line, out); err != nil {
			return nil, fmt.Errorf("metrics of Pod %s: %w", pods.Items[i].Name, err)
		}
	}
	return out, nil
}

func (c *Cluster) measure(ctx context.Context, ip string, line *regexp.Regexp, out map[string]float64) error {
	return c.get(ctx, net.JoinHostPort(ip, strconv.Itoa(metricsPort))+"/metrics", func(metrics io.Reader) error { return sum(metrics, line, out) })
}

// get calls do with the body of a page that a Pod serves. The address has no scheme.
func (c *Cluster) get(ctx context.Context, address string, do func(io.Reader) error) error {
	proxy, err := url.Parse(c.Proxy)
	if err != nil {
		return err
	}
	through := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
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
	return do(resp.Body)
}

// work matches controller-runtime's counter of reconciles, and the numbers of those that are running and queued.
var work = regexp.MustCompile(`^(controller_runtime_reconcile_total|controller_runtime_active_workers|workqueue_depth)\{.*\} (\S+)$`)

// Work returns how many reconciles a program has finished, and how many are running or queued. The program is given by the name of
// its ServiceAccount.
func (c *Cluster) Work(ctx context.Context, account string) (finished, pending int, err error) {
	counted, err := c.Measured(ctx, account, work)
	return int(counted["controller_runtime_reconcile_total"]), int(counted["controller_runtime_active_workers"] + counted["workqueue_depth"]), err
}

// IsReady reports whether a program says that it is ready. The program is given by the name of its ServiceAccount.
func (c *Cluster) IsReady(ctx context.Context, account string) bool {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(c.Home)); err != nil {
		return false
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return strings.HasPrefix(p.Name, account) })
	return i >= 0 && c.get(ctx, net.JoinHostPort(pods.Items[i].Status.PodIP, strconv.Itoa(healthPorts[account]))+"/readyz", func(io.Reader) error { return nil }) == nil
}

func sum(metrics io.Reader, line *regexp.Regexp, out map[string]float64) error {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		found := line.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		n, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		out[found[1]] += n
	}
	return lines.Err()
}
