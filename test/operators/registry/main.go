// Command registry is what is in a catalog image that is a registry: it serves the file-based catalog in the folder configs beside
// its own executable over gRPC, by operator-registry's own server, as `opm serve` does.
//
// The node stand-in runs one executable for an image and has no files of the image's own, so a test gives each image a folder, with
// a link to this program in it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// address is where the node stand-in has a Pod listen.
const address = "REMIT_POD_LISTEN_IP"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, filepath.Join(filepath.Dir(os.Args[0]), "configs")); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, configs string) error {
	dir, err := os.MkdirTemp("", "registry-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := os.Stat(configs); err != nil {
		return err
	}
	store, err := cache.New(dir)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := cache.LoadOrRebuild(ctx, store, os.DirFS(configs)); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(os.Getenv(address), "50051"))
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	api.RegisterRegistryServer(s, server.NewRegistryServer(store))
	grpc_health_v1.RegisterHealthServer(s, server.NewHealthServer())
	go func() {
		<-ctx.Done()
		s.Stop()
	}()
	if err := s.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
