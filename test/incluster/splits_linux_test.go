package incluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// virtualHost is what an Envoy has for a domain.
type virtualHost struct {
	Domains []string `json:"domains"`
	Routes  []struct {
		added
		Match json.RawMessage `json:"match"`
		Route struct {
			Cluster  string `json:"cluster"`
			Weighted struct {
				Clusters []struct {
					added
					Name   string `json:"name"`
					Weight int    `json:"weight"`
				} `json:"clusters"`
			} `json:"weighted_clusters"`
			Retries json.RawMessage `json:"retry_policy"`
		} `json:"route"`
	} `json:"routes"`
}

// added are headers that a route adds to requests.
type added struct {
	Headers []struct {
		Header struct{ Key, Value string } `json:"header"`
	} `json:"request_headers_to_add"`
}

type headers map[string]string

func (a added) headers() headers {
	all := headers{}
	for _, h := range a.Headers {
		all[http.CanonicalHeaderKey(h.Header.Key)] = h.Header.Value
	}
	return all
}

// host returns what the Envoy at an admin address has for a domain.
func host(t require.TestingT, admin, domain string) virtualHost {
	h, err := findHost(admin, domain)
	require.NoError(t, err)
	return h
}

func findHost(admin, domain string) (virtualHost, error) {
	var dump struct {
		Configs []struct {
			RouteConfig struct {
				VirtualHosts []virtualHost `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"configs"`
	}
	if err := dumpOf(admin, "dynamic_route_configs", &dump); err != nil {
		return virtualHost{}, err
	}
	var others []string
	for _, config := range dump.Configs {
		for _, h := range config.RouteConfig.VirtualHosts {
			if slices.Contains(h.Domains, domain) {
				return h, nil
			}
			others = append(others, h.Domains...)
		}
	}
	return virtualHost{}, fmt.Errorf("no virtual host has the domain %s; there are %v", domain, others)
}

// discoveryOf returns how an Envoy finds the endpoints of a cluster.
func discoveryOf(t require.TestingT, admin, name string) string {
	var dump struct {
		Configs []struct{ Cluster struct{ Name, Type string } } `json:"configs"`
	}
	require.NoError(t, dumpOf(admin, "dynamic_active_clusters", &dump))
	for _, c := range dump.Configs {
		if c.Cluster.Name == name {
			return c.Cluster.Type
		}
	}
	return ""
}

// dumpOf reads resources of the Envoy at an admin address.
func dumpOf(admin, resource string, into any) error {
	response, err := http.Get("http://" + admin + "/config_dump?resource=" + resource)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return json.NewDecoder(response.Body).Decode(into)
}

// splits tells of each route where it leads, as "podinfo-primary 80, podinfo-canary 20": by subset,
// or else by Service.
func (h virtualHost) splits() (all []string) {
	for _, r := range h.Routes {
		if r.Route.Cluster != "" {
			all = append(all, destination(r.Route.Cluster)+" 100")
			continue
		}
		var parts []string
		for _, c := range r.Route.Weighted.Clusters {
			parts = append(parts, fmt.Sprintf("%s %d", destination(c.Name), c.Weight))
		}
		all = append(all, strings.Join(parts, ", "))
	}
	return all
}

// destination returns the subset of a cluster, or its Service.
func destination(cluster string) string {
	parts := strings.Split(cluster, "|") // outbound|80|subset|host
	if len(parts) != 4 {
		return cluster
	}
	if parts[2] != "" {
		return parts[2]
	}
	service, _, _ := strings.Cut(parts[3], ".")
	return service
}

// routed waits until an Envoy splits the requests for a domain so.
func routed(t *testing.T, admin, domain string, want ...string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) { require.Equal(ct, want, host(ct, admin, domain).splits()) })
}

// history is how an Envoy has split the requests for a domain, from one change to the next. The
// routes of a virtual host are joined by "; ".
type history struct {
	mu  sync.Mutex
	all []string
}

// follow notes the splits of an Envoy until the test ends.
func follow(t *testing.T, admin, domain string) *history {
	t.Helper()
	h, ended := &history{}, make(chan struct{})
	var running sync.WaitGroup
	t.Cleanup(func() { close(ended); running.Wait() })
	running.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			if found, err := findHost(admin, domain); err == nil {
				h.note(strings.Join(found.splits(), "; "))
			}
			select {
			case <-ended:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	return h
}

func (h *history) note(split string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 || h.all[len(h.all)-1] != split {
		h.all = append(h.all, split)
	}
}

// saw waits until there were these splits, in this order; others may stand between them.
func (h *history) saw(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		h.mu.Lock()
		defer h.mu.Unlock()
		left := want
		for _, split := range h.all {
			if len(left) > 0 && split == left[0] {
				left = left[1:]
			}
		}
		require.Empty(ct, left, "of %q", h.all)
	})
}
