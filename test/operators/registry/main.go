// Command registry is the program in the catalog images that the tests run as registries. It uses operator-registry's
// server to serve the file-based catalog in the directory configs, next to its executable, over gRPC, as `opm serve`
// does.
//
// The simulated node runs one executable per image and does not have the image's files. A test therefore creates a directory
// for each image, with a link to this program in it.
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

// address is the name of the environment variable that contains the address on which the simulated node expects a Pod
// to listen.
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
