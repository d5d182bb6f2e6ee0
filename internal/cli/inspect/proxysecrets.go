package inspect

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// secrets returns a row for each certificate of the secrets in a dump. Envoy itself redacts private
// keys; the control plane tells names alone.
func (d *configDump) secrets() (rows []configRow, raw []any) {
	raw = []any{}
	for _, part := range d.resources(&adminv3.SecretsConfigDump{}) {
		raw = append(raw, part.raw)
		dump, ok := part.message.(*adminv3.SecretsConfigDump)
		if !ok {
			continue
		}
		add := func(name, state string, secret proto.Message) {
			rows = append(rows, secretRows(name, state, secret)...)
		}
		for _, s := range dump.GetStaticSecrets() {
			m, _ := s.GetSecret().UnmarshalNew()
			add(s.GetName(), "STATIC", m)
		}
		for _, s := range dump.GetDynamicActiveSecrets() {
			m, _ := s.GetSecret().UnmarshalNew()
			add(s.GetName(), "ACTIVE", m)
		}
		for _, s := range dump.GetDynamicWarmingSecrets() {
			m, _ := s.GetSecret().UnmarshalNew()
			add(s.GetName(), "WARMING", m)
		}
	}
	return rows, raw
}

func secretRows(name, state string, m proto.Message) []configRow {
	secret, ok := m.(*tlsv3.Secret)
	if !ok {
		return []configRow{{cells: []string{name, none, state, none, none, none}}}
	}
	kind, source := "certificate", secret.GetTlsCertificate().GetCertificateChain()
	if secret.GetValidationContext() != nil {
		kind, source = "CA", secret.GetValidationContext().GetTrustedCa()
	}
	certificates := certificatesIn(source)
	if len(certificates) == 0 {
		return []configRow{{cells: []string{name, kind, state, none, none, none}}}
	}
	if kind == "certificate" {
		certificates = certificates[:1] // the rest is the chain
	}
	var rows []configRow
	for _, c := range certificates {
		rows = append(rows, configRow{cells: []string{
			name, kind, state, c.SerialNumber.Text(16), c.NotBefore.UTC().Format(time.RFC3339),
			c.NotAfter.UTC().Format(time.RFC3339),
		}})
	}
	return rows
}

func certificatesIn(source *corev3.DataSource) (all []*x509.Certificate) {
	text := source.GetInlineBytes()
	if s := source.GetInlineString(); s != "" {
		text = []byte(s)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}

// bootstrap returns what an operator looks for in an Envoy's bootstrap.
func (d *configDump) bootstrap() (rows []configRow, raw []any) {
	raw = []any{}
	for _, part := range d.resources(&adminv3.BootstrapConfigDump{}) {
		raw = append(raw, part.raw["bootstrap"])
		dump, ok := part.message.(*adminv3.BootstrapConfigDump)
		if !ok {
			continue
		}
		b := dump.GetBootstrap()
		add := func(field, value string) {
			rows = append(rows, configRow{cells: []string{field, cmp.Or(value, none)}})
		}
		l := b.GetNode().GetLocality()
		add("node.id", b.GetNode().GetId())
		add("node.cluster", b.GetNode().GetCluster())
		add("node.locality", strings.Trim(strings.Join([]string{l.GetRegion(), l.GetZone(), l.GetSubZone()}, "/"), "/"))
		add("admin.address", addressText(b.GetAdmin().GetAddress()))
		for _, c := range b.GetStaticResources().GetClusters() {
			var at []string
			for _, g := range c.GetLoadAssignment().GetEndpoints() {
				for _, e := range g.GetLbEndpoints() {
					at = append(at, addressText(e.GetEndpoint().GetAddress()))
				}
			}
			add("cluster "+c.GetName(), strings.Join(at, ", "))
		}
		for _, l := range b.GetStaticResources().GetListeners() {
			add("listener "+l.GetName(), addressText(l.GetAddress()))
		}
	}
	return rows, raw
}
