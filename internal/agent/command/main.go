package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/lateen-mesh/lateen/internal/agent"
	"github.com/lateen-mesh/lateen/internal/agent/intercept"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// version is set by the linker (Makefile).
var version = "dev"

// collectAt makes the collector run at a growth of a quarter. A heap of a few megabytes is
// collected in well under a millisecond, and the agent's memory is counted in every Pod.
const collectAt = 25

const usage = `lateen-agent runs Envoy in a Pod of the mesh, and what stands beside it.

  lateen-agent proxy [sidecar|router] [flags]   run Envoy until it ends
  lateen-agent wait [flags]                     wait until the proxy is ready
  lateen-agent request [flags] METHOD PATH      ask Envoy's admin interface
  lateen-agent istio-iptables [flags]           send the Pod's connections to the proxy, by nftables
  lateen-agent version

Commands, flags and variables are those of Istio's pilot-agent.
`

// errUsage says that the command line is wrong.
var errUsage = errors.New("wrong command line")

// Main runs the command that the arguments name, and returns the exit code: 0, 1 if it failed, 2 if
// the arguments are wrong, or 126 if connections do not come to the proxy.
func Main() int {
	debug.SetGCPercent(collectAt)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "lateen-agent: %v\n\n%s", err, usage)
		return 2
	}
	code := 1
	if errors.Is(err, intercept.ErrNotRedirected) {
		code = intercept.NotRedirected
	}
	fmt.Fprintf(os.Stderr, "lateen-agent: %v\n", err)
	return code
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no command", errUsage)
	}
	switch name, rest := args[0], args[1:]; name {
	case "proxy":
		return proxy(ctx, rest)
	case "wait":
		return wait(ctx, rest)
	case "request":
		return request(ctx, rest, out)
	case "istio-iptables":
		return redirect(ctx, rest, out)
	case "version":
		_, err := fmt.Fprintln(out, version)
		return err
	case "help", "-h", "--help":
		_, err := fmt.Fprint(out, usage)
		return err
	default:
		return fmt.Errorf("%w: command %q does not exist; want proxy, wait, request, "+
			"istio-iptables or version", errUsage, name)
	}
}

// proxy runs Envoy until it ends.
func proxy(ctx context.Context, args []string) error {
	found, err := interfaces()
	if err != nil {
		return err
	}
	s, err := settings.Read(settings.Sources{
		Args: args, Environ: os.Environ(), Files: os.DirFS("."), Interfaces: found, Gateways: gateways(),
	})
	if err != nil {
		return err
	}
	return agent.Run(ctx, agent.Options{
		Settings: s, Stdout: os.Stdout, Stderr: os.Stderr, Log: logger(os.Stderr, s.Log),
	})
}

func logger(w io.Writer, l settings.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// interfaces returns those of this machine with their addresses.
func interfaces() ([]settings.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("network interfaces: %w", err)
	}
	var found []settings.Interface
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("network interface %s: %w", i.Name, err)
		}
		one := settings.Interface{Name: i.Name}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				one.Addresses = append(one.Addresses, prefix.Addr())
			}
		}
		found = append(found, one)
	}
	return found, nil
}
