package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startTimeout is how long etcd may take to elect itself: on two busy cores a few seconds.
const startTimeout = time.Minute

// clientTimeout bounds one request of compact and put.
const clientTimeout = 30 * time.Second

func etcdCommand() *cobra.Command {
	var dir, socket string
	command := &cobra.Command{
		Use:          "etcd",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return serveEtcd(dir, socket)
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "data directory, kept over restarts")
	command.Flags().StringVar(&socket, "socket", "", "path of the Unix socket to serve on")
	return command
}

// serveEtcd runs a member of a cluster of one until SIGTERM or SIGINT. Nothing is flushed to disk
// before it is answered: a test outlives no power failure, and a killed process loses nothing of
// what the kernel has.
func serveEtcd(dir, socket string) error {
	config := embed.NewConfig()
	config.Dir = dir
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	// It has no peers and nobody asks it for addresses: the URLs that it advertises stay what they
	// are by default.
	config.ListenClientUrls, config.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: socket}}, nil
	// Test machines stall for longer than etcd's second; with one member an election decides
	// nothing.
	config.TickMs, config.ElectionMs = 500, 5000

	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("starting etcd in %s: %w", dir, err)
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(startTimeout):
		return errors.New("etcd did not become ready within a minute")
	case <-stop:
		return nil
	}
	select {
	case err := <-server.Err():
		return err
	case <-stop:
		return nil
	}
}

func compactCommand() *cobra.Command {
	var socket string
	command := &cobra.Command{
		Use:          "compact",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return withClient(socket, compact)
		},
	}
	command.Flags().StringVar(&socket, "socket", "", "path of etcd's Unix socket")
	return command
}

// compact writes a key of its own first: etcd keeps the latest change before a compaction, and that
// shall be nobody's.
func compact(ctx context.Context, client *clientv3.Client) error {
	now, err := client.Put(ctx, "compacted", "to here")
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	return err
}

func putCommand() *cobra.Command {
	var socket, key string
	command := &cobra.Command{
		Use:          "put",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			value, err := io.ReadAll(command.InOrStdin())
			if err != nil {
				return err
			}
			return withClient(socket, func(ctx context.Context, client *clientv3.Client) error {
				_, err := client.Put(ctx, key, string(value))
				return err
			})
		},
	}
	command.Flags().StringVar(&socket, "socket", "", "path of etcd's Unix socket")
	command.Flags().StringVar(&key, "key", "", "etcd's key, as /registry/endpointslices/default/name")
	return command
}

func withClient(socket string, do func(context.Context, *clientv3.Client) error) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	return do(ctx, client)
}
