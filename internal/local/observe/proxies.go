package observe

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	targetsPath = "/targets"
	proxiesPath = "/proxies/"
	// scrapeTime is how long an Envoy has to answer.
	scrapeTime = 5 * time.Second
	// maxStatistics bounds what an Envoy answers, in bytes.
	maxStatistics = 64 << 20
)

// proxies serves which proxies there are, in the form of Prometheus' http_sd, and their metrics.
type proxies struct {
	pods   func() []local.PodStatus
	client http.Client
	log    *slog.Logger
}

func newProxies(pods func() []local.PodStatus, log *slog.Logger) http.Handler {
	p := &proxies{pods: pods, log: log, client: http.Client{Timeout: scrapeTime}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+targetsPath, p.targets)
	mux.HandleFunc("GET "+proxiesPath+"{namespace}/{pod}", p.metrics)
	mux.HandleFunc("GET "+containersPath, p.containers)
	return mux
}

// AdminLabel is a target's label with the address of its Envoy's admin page. Prometheus keeps
// __meta_ labels among the discovered ones alone.
const AdminLabel = "__meta_lateen_envoy_admin"

// target is one entry of http_sd.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func (p *proxies) targets(w http.ResponseWriter, r *http.Request) {
	all := []target{} // Prometheus wants a list
	for _, pod := range p.pods() {
		if !pod.Outbound.IsValid() || pod.Peer == (proxystats.Workload{}) {
			continue
		}
		all = append(all, target{Targets: []string{r.Host}, Labels: map[string]string{
			"__metrics_path__": proxiesPath + pod.Namespace + "/" + pod.Name,
			"instance":         pod.Name + "." + pod.Namespace,
			"namespace":        pod.Namespace,
			"pod":              pod.Name,
			"app":              pod.Peer.App,
			AdminLabel:         netip.AddrPortFrom(pod.Outbound, local.AdminPort).String(),
		}})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(all); err != nil {
		p.log.Debug("Prometheus is not told the proxies", "error", err)
	}
}

func (p *proxies) metrics(w http.ResponseWriter, r *http.Request) {
	for _, pod := range p.pods() {
		if pod.Namespace == r.PathValue("namespace") && pod.Name == r.PathValue("pod") && pod.Outbound.IsValid() {
			p.rewrite(w, r, pod)
			return
		}
	}
	http.NotFound(w, r)
}

// rewrite answers with the metrics of one Envoy.
func (p *proxies) rewrite(w http.ResponseWriter, r *http.Request, pod local.PodStatus) {
	at := "http://" + netip.AddrPortFrom(pod.Outbound, local.AdminPort).String() + "/stats/prometheus"
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	response, err := p.client.Do(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := meshstats.NewWriter(w, meshstats.Self{Workload: pod.Peer, Principal: pod.Principal})
	if _, err := io.Copy(out, io.LimitReader(response.Body, maxStatistics)); err != nil {
		p.log.Warn("metrics of a proxy are cut off", "pod", pod.Name, "error", err)
		return
	}
	if err := out.Close(); err != nil {
		p.log.Warn("metrics of a proxy are cut off", "pod", pod.Name, "error", err)
	}
	if n := out.Dropped(); n > 0 {
		p.log.Warn("a proxy has statistics that are none of Istio's metrics", "pod", pod.Name, "lines", n)
	}
}
