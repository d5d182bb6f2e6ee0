package wasm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// Variables of a VM by which the control plane says how its module is fetched. All with the prefix
// are for the agent, and taken out.
const (
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	agentVariables  = "ISTIO_META_"
)

// anyModule is the checksum of a control plane that has none.
const anyModule = "nil"

// defaultTimeout is that of a fetch that the configuration has none for, and maxTimeout the longest
// that it may have, in milliseconds.
const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = 10 * 60 * 1000
)

// Results of conversions, as Istio's agent counts them.
const (
	converted        = "success"
	noRemoteLoad     = "no_remote_load"
	unmarshalFailure = "unmarshal_failure"
	marshalFailure   = "marshal_failure"
	fetchFailure     = "fetch_failure"
	noFetchHint      = "miss_remote_fetch_hint"
)

// Rewriter has filters name the files of their modules.
type Rewriter struct {
	modules  *Modules
	counts   map[string]*metrics.Counter
	duration *metrics.Histogram
}

// NewRewriter returns a Rewriter.
func NewRewriter(m *Modules) *Rewriter {
	r := &Rewriter{modules: m, counts: map[string]*metrics.Counter{}}
	for _, result := range []string{
		converted, noRemoteLoad, unmarshalFailure, marshalFailure, fetchFailure, noFetchHint,
	} {
		r.counts[result] = m.Metrics.Counter(
			"istio_agent_wasm_config_conversion_count", "Filters whose module was to be put in place, by result.",
			"result", result,
		)
	}
	r.duration = m.Metrics.Histogram(
		"istio_agent_wasm_config_conversion_duration", "How long it took to put modules in place, in milliseconds.",
		1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
	)
	return r
}

// Fetches reports whether the resource of a filter, a TypedExtensionConfig, has a module that is to
// be fetched.
func (r *Rewriter) Fetches(resource []byte) bool {
	f, err := read(resource)
	if err != nil {
		r.counts[unmarshalFailure].Inc()
		return false // Envoy says what is wrong with it
	}
	if f == nil {
		r.counts[noRemoteLoad].Inc()
	}
	return f != nil
}

// Rewrite returns the resource of a filter with the file of its module. If that cannot be had, it
// returns a filter in its place that accepts or refuses all, as the filter says, and an error.
func (r *Rewriter) Rewrite(ctx context.Context, resource []byte) ([]byte, error) {
	begin := r.modules.Now()
	defer func() { r.duration.Observe(float64(r.modules.Now().Sub(begin).Milliseconds())) }()
	f, err := read(resource)
	if err != nil || f == nil {
		return resource, nil // Envoy says what is wrong with it
	}
	out, result, failure := r.place(ctx, f)
	if failure != nil {
		failure = fmt.Errorf("the Wasm module of %s: %w", f.name, failure)
		if out, err = f.fallback(); err != nil {
			result = marshalFailure
		}
	}
	r.counts[result].Inc()
	return out, errors.Join(failure, err)
}

// Given notes the file that a filter names which Envoy gets: it stays until Envoy has another one.
func (r *Rewriter) Given(resource []byte) { r.modules.use(fileIn(resource)) }

// Gone notes that Envoy has a filter no longer.
func (r *Rewriter) Gone(name string) { r.modules.use(name, "") }

// place puts the module in place. It returns what that is counted as too.
func (r *Rewriter) place(ctx context.Context, f *filter) (out []byte, result string, err error) {
	request, lacksSecret := f.request()
	switch {
	case request.URL == "":
		return nil, noFetchHint, errors.New("does not say where it is")
	case lacksSecret:
		return nil, fetchFailure, errors.New("the control plane has no pull secret for it")
	}
	path, err := r.modules.Get(ctx, request)
	if err != nil {
		return nil, fetchFailure, err
	}
	if out, err = f.withFile(path); err != nil {
		return nil, marshalFailure, err
	}
	return out, converted, nil
}
