package component

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const etcdStartTimeout = time.Minute

// Etcd starts etcd with its data in dir and its sockets in sockets. It returns the URL for the API server.
//
// Both sockets are unix sockets in a directory of mode 0700, so no etcd port is open to other users of the machine. Fsync is
// off: a process crash loses no data, because the page cache survives it, but a machine crash can.
func Etcd(ctx context.Context, dir, sockets string) (*Running, string, error) {
	client, peer := filepath.Join(sockets, "etcd.sock"), filepath.Join(sockets, "peer.sock")
	cfg := embed.NewConfig()
	cfg.Name = "remit"
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: client}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: peer}}
	// The advertised addresses of a single member are not dialed, but must look like host:port.
	advertised := []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = advertised, advertised
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.UnsafeNoFsync = true
	// Each commit rewrites many pages, so commits are rare. The write-ahead log contains what is not committed yet.
	cfg.BackendBatchInterval, cfg.BackendBatchLimit = time.Second, 100_000
	// On close, etcd always logs four irrelevant errors. Relevant errors are returned.
	cfg.LogLevel = "fatal"
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = "revision", "10000"
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, "", fmt.Errorf("start etcd: %w", err)
	case <-time.After(etcdStartTimeout):
		server.Close()
		return nil, "", errors.New("start etcd: not ready in time")
	case <-ctx.Done():
		server.Close()
		return nil, "", ctx.Err()
	}
	running := start(ctx, "etcd", func(ctx context.Context) error {
		defer server.Close()
		select {
		case err := <-server.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return running, "unix://" + client, nil
}
