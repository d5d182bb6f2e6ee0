package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// plaintext is the caller without a certificate.
const plaintext = "plaintext"

// callFlags describe a call.
type callFlags struct {
	from                     string
	ip, remoteIP, ownIP      string
	port                     int
	sni, host, method, path  string
	tcp                      bool
	headers, claims, filters []string
	requestPrincipal         string
}

func (f *callFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", plaintext,
		"the caller: NAMESPACE/ACCOUNT of the mesh's trust domain, DOMAIN/ns/NAMESPACE/sa/ACCOUNT, or plaintext")
	flags.StringVar(&f.ip, "ip", "", "the address that the connection comes from (source.ip)")
	flags.StringVar(&f.remoteIP, "remote-ip", "", "the client's address, as trusted proxies report it (default: --ip)")
	flags.StringVar(&f.ownIP, "destination-ip", "", "the workload's address (default: that of the Pod)")
	flags.IntVar(&f.port, "port", 0, "the workload's port, which is the targetPort of a Service")
	flags.StringVar(&f.sni, "sni", "", "the server name in TLS (connection.sni)")
	flags.BoolVar(&f.tcp, "tcp", false, "a connection of bytes, not a request")
	flags.StringVar(&f.host, "host", "", "the header Host, or :authority")
	flags.StringVar(&f.method, "method", "GET", "the method of the request")
	flags.StringVar(&f.path, "path", "/", "the path of the request; a query does not count")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, NAME=VALUE; may be repeated")
	flags.StringVar(&f.requestPrincipal, "request-principal", "", "issuer and subject of the token: ISSUER/SUBJECT")
	flags.StringArrayVar(&f.claims, "claim", nil,
		"a claim of the token, NAME=VALUE, where VALUE may be a list or an object in JSON; may be repeated")
	flags.StringArrayVar(&f.filters, "metadata", nil,
		"what a filter of Envoy left, FILTER/KEY=VALUE, where VALUE may be a list in JSON; may be repeated")
	for _, name := range []string{"host", "method", "path", "header", "request-principal", "claim"} {
		cmd.MarkFlagsMutuallyExclusive("tcp", name)
	}
	command.ValidateFlag(flags, "from", func() error { _, err := identityOf(f.from); return err })
	for name, value := range map[string]*string{"ip": &f.ip, "remote-ip": &f.remoteIP, "destination-ip": &f.ownIP} {
		command.ValidateFlag(flags, name, func() error { _, err := addressOf(*value); return err })
	}
	command.ValidateFlag(flags, "port", func() error {
		if f.port < 1 || f.port > 65535 {
			return errors.New("want a port from 1 to 65535")
		}
		return nil
	})
	command.ValidateFlag(flags, "path", func() error {
		if !strings.HasPrefix(f.path, "/") && f.path != "*" {
			return errors.New("want a path that begins with /")
		}
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{plaintext},
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions([]string{
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT",
	}, cobra.ShellCompDirectiveNoFileComp))
}

// call returns the call that the flags describe.
func (f *callFlags) call() (c policy.Call, err error) {
	c = policy.Call{TCP: f.tcp, Port: uint16(f.port), SNI: f.sni, Host: f.host}
	c.Identity, _ = identityOf(f.from) // flags are validated
	c.Source, _ = addressOf(f.ip)
	c.Destination, _ = addressOf(f.ownIP)
	if c.Remote, _ = addressOf(f.remoteIP); f.remoteIP == "" {
		c.Remote = c.Source
	}
	if !f.tcp {
		c.Method, c.Path = f.method, f.path
	}
	c.Headers = map[string]string{}
	for _, pair := range f.headers {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return c, fmt.Errorf("--header %q: want NAME=VALUE", pair)
		}
		c.Headers[strings.ToLower(name)] = value
	}
	if c.Claims, err = f.token(); err != nil {
		return c, err
	}
	c.Metadata = map[string]map[string]any{}
	for _, pair := range f.filters {
		name, value, ok := strings.Cut(pair, "=")
		filter, key, named := strings.Cut(name, "/")
		if !ok || !named {
			return c, fmt.Errorf("--metadata %q: want FILTER/KEY=VALUE, as envoy.filters.network.x/key=value", pair)
		}
		if c.Metadata[filter] == nil {
			c.Metadata[filter] = map[string]any{}
		}
		if c.Metadata[filter][key], err = valueOf(value); err != nil {
			return c, fmt.Errorf("--metadata %q: %w", pair, err)
		}
	}
	return c, nil
}

// token returns the claims of the call's token, nil if none is described.
func (f *callFlags) token() (map[string]any, error) {
	if f.requestPrincipal == "" && len(f.claims) == 0 {
		return nil, nil
	}
	claims := map[string]any{}
	if f.requestPrincipal != "" {
		at := strings.LastIndexByte(f.requestPrincipal, '/')
		if at < 0 {
			return nil, fmt.Errorf("--request-principal %q: want ISSUER/SUBJECT", f.requestPrincipal)
		}
		claims["iss"], claims["sub"] = f.requestPrincipal[:at], f.requestPrincipal[at+1:]
	}
	for _, pair := range f.claims {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--claim %q: want NAME=VALUE", pair)
		}
		value, err := valueOf(text)
		if err != nil {
			return nil, fmt.Errorf("--claim %q: %w", pair, err)
		}
		claims[name] = value
	}
	return claims, nil
}

// valueOf reads a list or an object in JSON; everything else is text.
func valueOf(text string) (value any, err error) {
	if !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "{") {
		return text, nil
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf(`%w; want text, or JSON as ["a", "b"]`, err)
	}
	return value, nil
}

// identityOf returns the identity of a caller, or namespace/account where the trust domain is that
// of the mesh; "" in plaintext.
func identityOf(from string) (string, error) {
	if from == plaintext {
		return "", nil
	}
	identity := strings.TrimPrefix(from, model.IdentityScheme)
	parts := strings.Split(identity, "/")
	for _, p := range parts {
		if p == "" {
			parts = nil
		}
	}
	switch {
	case len(parts) == 2 && identity == from:
		return identity, nil
	case len(parts) == 5 && parts[1] == "ns" && parts[3] == "sa":
		return model.IdentityScheme + identity, nil
	}
	return "", errors.New("want NAMESPACE/ACCOUNT, DOMAIN/ns/NAMESPACE/sa/ACCOUNT, or plaintext")
}

func addressOf(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, errors.New("want an IP address")
	}
	return a.Unmap(), nil
}
