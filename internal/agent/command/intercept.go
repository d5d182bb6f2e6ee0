package command

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"

	"github.com/lateen-mesh/lateen/internal/agent/intercept"
)

// redirect sets the rules that send the Pod's connections to its proxy. An init container runs it,
// with the flags of istio-iptables and the capability NET_ADMIN.
func redirect(args []string, out io.Writer) error {
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
	if err := intercept.Apply(o, 0); err != nil {
		return err
	}
	slog.Info("connections are intercepted", "rules", strings.Count(intercept.Text(o), "\n"), "dns", o.DNS,
		"flagsNotInForce", o.NotInForce)
	return nil
}
