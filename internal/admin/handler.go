package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// Fleet returns the connected proxies in the order of names.
type Fleet interface {
	Clients() []serve.Client
}

// Options are the sources of what the handler shows.
type Options struct {
	Version  string
	Gatherer prometheus.Gatherer
	Fleet    Fleet
	// Ready returns nil once proxies are served, else what is missing.
	Ready func() error
	// Hosts are the names by which clients may ask for the pages below /debug, in lower case,
	// beside localhost and IP addresses.
	Hosts []string
	// NoPages leaves out the pages below /debug.
	NoPages bool
	// Pod is the name of this replica's Pod; empty outside of a cluster.
	Pod string
	// RootNamespace is the namespace whose service accounts are shown everything over xDS.
	RootNamespace func() string
	// Mesh is what the pages about the mesh are made of.
	Mesh *Mesh
}

// errNotReady is what a page says before there is something to show.
var errNotReady = errors.New("not ready: no objects have been read yet")

// handler answers requests. It keeps no state.
type handler struct{ Options }

// NewHandler returns the handler for the monitoring port (15014). The pages below /debug tell
// everything about the mesh and need no authentication. So only clients with a loopback address get
// them, such as kubectl port-forward, and no web page that a browser shows.
func NewHandler(o Options) http.Handler {
	h := handler{Options: o}
	mux := http.NewServeMux()
	debug := func(pattern string, f http.HandlerFunc) {
		if o.NoPages {
			f = closed
		}
		mux.HandleFunc(pattern, h.guarded(f))
	}
	for path, f := range h.pages() {
		debug("GET "+path, f)
	}
	debug("POST "+page.Path(page.Planning), h.plan)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /ready", h.ready)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, o.Version) // without a line's end, which istioctl would show
	})
	return mux
}

// pages returns all pages below /debug by path.
func (h handler) pages() map[string]http.HandlerFunc {
	pages := map[string]http.HandlerFunc{
		page.Path(page.Sync):     h.syncz,
		page.Path(page.Dump):     h.configDump,
		page.Path("edsz"):        h.resourcesOf(resource.Endpoint),
		page.Path("ndsz"):        h.resourcesOf(resource.Name),
		page.Path(page.Filters):  h.resourcesOf(resource.Filter),
		page.Path("connections"): h.connections,
		page.Path("adsz"):        h.connections,
		page.Path(page.Problems): h.problems,
	}
	for name, content := range h.Mesh.pages(h.Ready) {
		pages[page.Path(name)] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, content()) }
	}
	for name, content := range h.Mesh.queries() {
		pages[page.Path(name)] = func(w http.ResponseWriter, r *http.Request) {
			answer, err := content(r.URL.Query())
			switch {
			case errors.Is(err, errNotReady), errors.Is(err, ErrNotNow):
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			case errors.Is(err, errNotDescribed):
				http.Error(w, err.Error(), http.StatusNotFound)
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
			default:
				writeJSON(w, answer)
			}
		}
	}
	paths := slices.Sorted(maps.Keys(pages))
	pages[page.Path(page.List)] = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, paths) }
	return pages
}

func (h handler) ready(w http.ResponseWriter, _ *http.Request) {
	if err := h.Ready(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(w, "ready")
}

func (h handler) problems(w http.ResponseWriter, _ *http.Request) {
	out := []page.Problem{}
	for _, p := range h.Mesh.Problems() {
		out = append(out, page.ProblemOf(p))
	}
	writeJSON(w, out)
}

// writeJSON writes v indented. A write error means that the client has gone, and is ignored.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}
