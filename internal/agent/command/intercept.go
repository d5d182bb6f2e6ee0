package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"

	"github.com/lateen-mesh/lateen/internal/agent/intercept"
)

// redirect sets the rules that send the Pod's connections to its proxy, or validates those of a CNI
// plugin. An init container runs it, with the flags of istio-iptables, and for the first with the
// capability NET_ADMIN.
func redirect(ctx context.Context, args []string, out io.Writer) error {
	in := intercept.Surroundings{Environ: os.Getenv}
	if config, err := dns.ClientConfigFromFile("/etc/resolv.conf"); err == nil {
		for _, server := range config.Servers {
			if address, err := netip.ParseAddr(server); err == nil {
				in.Resolvers = append(in.Resolvers, address.WithZone("").Unmap())
			}
		}
	}
	o, err := intercept.Parse(args, in)
	if err != nil {
		return fmt.Errorf("%w: istio-iptables: %w", errUsage, err)
	}
	if o.DryRun {
		_, err := io.WriteString(out, intercept.Text(o))
		return err
	}
	if !o.KeepRules {
		if err := setRules(o); err != nil {
			return err
		}
	}
	if o.Validates && !o.None {
		return validate(ctx, o)
	}
	return nil
}

func setRules(o intercept.Options) error {
	if err := intercept.Apply(o, 0); err != nil {
		return err
	}
	slog.Info("connections are intercepted", "rules", strings.Count(intercept.Text(o), "\n"), "dns", o.DNS,
		"flagsNotInForce", o.NotInForce)
	return nil
}

// validate finds out whether the Pod's connections come to the proxy, by rules that a CNI plugin
// has set.
func validate(ctx context.Context, o intercept.Options) error {
	pod, err := intercept.PodAddresses()
	if err != nil {
		return fmt.Errorf("the rules cannot be validated: %w", err)
	}
	for _, address := range pod {
		if err := intercept.Validate(ctx, o, address); err != nil {
			return err
		}
	}
	slog.Info("connections come to the proxy", "addresses", pod)
	return nil
}
