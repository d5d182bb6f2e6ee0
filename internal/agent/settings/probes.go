package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Probe is a probe of a container of the application. Exactly one of HTTP, TCP and GRPC is set.
type Probe struct {
	HTTP *HTTPProbe
	TCP  *TCPProbe
	GRPC *GRPCProbe
	// Timeout bounds the probe; it is never 0.
	Timeout time.Duration
}

// HTTPProbe gets a path of the application.
type HTTPProbe struct {
	Path string
	Port uint16
	TLS  bool
}

// TCPProbe connects to a port of the application.
type TCPProbe struct{ Port uint16 }

// GRPCProbe asks the health service of a port of the application.
type GRPCProbe struct {
	Port    uint16
	Service string
}

// ScrapeTarget is where the application serves metrics.
type ScrapeTarget struct {
	Port uint16
	Path string
}

const (
	probersVariable = "ISTIO_KUBE_APP_PROBERS"
	scrapeVariable  = "ISTIO_PROMETHEUS_ANNOTATIONS"
	// maxTargets bounds the metrics of one application.
	maxTargets = 16
)

// probePath is the form of the paths that the injector gives to probes.
var probePath = regexp.MustCompile(`^/(app-health|app-lifecycle)/[^/]+/(livez|readyz|startupz|prestopz|poststartz)$`)

// prober is one entry of ISTIO_KUBE_APP_PROBERS.
type prober struct {
	HTTPGet *struct {
		Path   string     `json:"path"`
		Port   numberPort `json:"port"`
		Scheme string     `json:"scheme"`
	} `json:"httpGet"`
	TCPSocket *struct {
		Port numberPort `json:"port"`
	} `json:"tcpSocket"`
	GRPC *struct {
		Port    numberPort `json:"port"`
		Service *string    `json:"service"`
	} `json:"grpc"`
	TimeoutSeconds int32 `json:"timeoutSeconds"`
}

// numberPort is a port by its number: names of ports are resolved by the injector.
type numberPort uint16

// UnmarshalJSON reads a number from 1 to 65535.
func (p *numberPort) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseUint(string(data), 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%s is no port; want a number from 1 to 65535", data)
	}
	*p = numberPort(n)
	return nil
}

// parseProbers reads the probes of the application by the paths under which the kubelet asks.
func parseProbers(text string) (map[string]Probe, error) {
	if text == "" {
		return nil, nil
	}
	var raw map[string]*prober
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("%s: %w", probersVariable, err)
	}
	all := make(map[string]Probe, len(raw))
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(raw)) {
		p, err := raw[path].probe()
		if !probePath.MatchString(path) {
			err = fmt.Errorf("is no path of a probe; want one as /app-health/CONTAINER/readyz")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", probersVariable, path, err))
			continue
		}
		all[path] = p
	}
	return all, errors.Join(errs...)
}

func (p *prober) probe() (Probe, error) {
	if p == nil {
		return Probe{}, errors.New("is null")
	}
	probe := Probe{Timeout: time.Duration(max(p.TimeoutSeconds, 1)) * time.Second}
	kinds := 0
	if h := p.HTTPGet; h != nil {
		kinds++
		probe.HTTP = &HTTPProbe{
			Path: "/" + strings.TrimPrefix(h.Path, "/"),
			Port: uint16(h.Port),
			TLS:  strings.EqualFold(h.Scheme, "HTTPS"),
		}
	}
	if t := p.TCPSocket; t != nil {
		kinds++
		probe.TCP = &TCPProbe{Port: uint16(t.Port)}
	}
	if g := p.GRPC; g != nil {
		kinds++
		probe.GRPC = &GRPCProbe{Port: uint16(g.Port)}
		if g.Service != nil {
			probe.GRPC.Service = *g.Service
		}
	}
	switch {
	case kinds != 1:
		return Probe{}, errors.New("want exactly one of httpGet, tcpSocket and grpc")
	case probe.HTTP != nil && probe.HTTP.Port == 0, probe.TCP != nil && probe.TCP.Port == 0,
		probe.GRPC != nil && probe.GRPC.Port == 0:
		return Probe{}, errors.New("has no port")
	}
	return probe, nil
}

// scrape is ISTIO_PROMETHEUS_ANNOTATIONS: what the Pod's annotations prometheus.io/… say.
type scrape struct {
	Scrape  string         `json:"scrape"`
	Path    string         `json:"path"`
	Port    string         `json:"port"`
	Targets []scrapeTarget `json:"targets"`
}

type scrapeTarget struct {
	Port string `json:"port"`
	Path string `json:"path"`
}

// ownPorts are the data plane's. To merge what they serve would merge the agent's metrics into
// themselves, or Envoy's twice.
var ownPorts = []uint16{15000, 15001, 15004, 15006, 15008, 15020, 15021, 15053, 15090}

// parseScrape reads where the application serves metrics. The agent's own ports are refused.
func parseScrape(text string, own ...uint16) ([]ScrapeTarget, error) {
	if text == "" {
		return nil, nil
	}
	var s scrape
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return nil, fmt.Errorf("%s: %w", scrapeVariable, err)
	}
	if s.Scrape == "false" {
		return nil, nil
	}
	if len(s.Targets) == 0 {
		s.Targets = []scrapeTarget{{Port: s.Port, Path: s.Path}}
		if s.Port == "" {
			s.Targets[0].Port = "80"
		}
	}
	if len(s.Targets) > maxTargets {
		return nil, fmt.Errorf("%s: %d targets; want %d at most", scrapeVariable, len(s.Targets), maxTargets)
	}
	var all []ScrapeTarget
	for _, t := range s.Targets {
		port, err := strconv.ParseUint(t.Port, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("%s: %q is no port; want 1 to 65535", scrapeVariable, t.Port)
		}
		if slices.Contains(ownPorts, uint16(port)) || slices.Contains(own, uint16(port)) {
			return nil, fmt.Errorf("%s: port %d is the proxy's own; want that of the application", scrapeVariable, port)
		}
		if t.Path == "" {
			t.Path = "/metrics"
		}
		all = append(all, ScrapeTarget{Port: uint16(port), Path: "/" + strings.TrimPrefix(t.Path, "/")})
	}
	return all, nil
}
