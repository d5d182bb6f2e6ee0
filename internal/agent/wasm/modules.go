package wasm

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// Modules are the modules that were fetched. Its methods may be called at the same time.
type Modules struct {
	Options
	counts counters

	mu sync.Mutex
	// files are the modules in Dir, by their checksum.
	files map[string]*file
	// known are references of which the module is known.
	known map[reference]*resolved
	// fetching are references whose modules are being fetched; closed when that has ended.
	fetching map[reference]chan struct{}
	// inForce are the checksums of the modules that Envoy uses, by the name of the filter.
	inForce map[string]string
	// places are taken by fetches.
	places chan struct{}
}

// file is a module on disk.
type file struct {
	size int64
	last time.Time // when it was asked for
}

// reference is what a plugin says of its module.
type reference struct{ url, checksum string }

// resolved is the module that a reference stands for.
type resolved struct {
	module string // its checksum
	// versions are those of the resources that have asked since, by their names.
	versions map[string]string
}

type counters struct {
	hits, misses *metrics.Counter
	fetches      map[string]*metrics.Counter
	unfinished   *metrics.Counter
}

// unfinished begins the names of files that are not written to their end.
const unfinished = "new-"

// maxFetches is how many modules are fetched at the same time. Each may be in memory twice.
const maxFetches = 4

// maxKnown is how many references are known. What is forgotten is fetched again.
const maxKnown = 1024

// Open returns the modules in a directory. Those of an earlier process stay until they expire: an
// Envoy that starts with its last configuration needs them.
func Open(o Options) (*Modules, error) {
	dir, err := filepath.Abs(o.Dir) // Envoy may have another working directory
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of Wasm modules: %w", err)
	}
	m := &Modules{
		Options: o, files: map[string]*file{}, known: map[reference]*resolved{}, inForce: map[string]string{},
		fetching: map[reference]chan struct{}{}, places: make(chan struct{}, maxFetches),
	}
	m.count()
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("directory of Wasm modules: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) {
			if err := os.Remove(filepath.Join(o.Dir, e.Name())); err != nil {
				return nil, fmt.Errorf("directory of Wasm modules: %w", err)
			}
			m.counts.unfinished.Inc()
			continue
		}
		sum, is := strings.CutSuffix(e.Name(), ".wasm")
		if info, err := e.Info(); err == nil && is {
			m.files[sum] = &file{size: info.Size(), last: info.ModTime()}
		}
	}
	return m, nil
}

func (m *Modules) count() {
	const prefix = "istio_agent_wasm_"
	m.Metrics.Gauge(prefix+"cache_entries", "Wasm modules on disk.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return float64(len(m.files))
	})
	const lookups = "Wasm modules that were asked for, by whether they were on disk."
	m.counts.hits = m.Metrics.Counter(prefix+"cache_lookup_count", lookups, "hit", "true")
	m.counts.misses = m.Metrics.Counter(prefix+"cache_lookup_count", lookups, "hit", "false")
	m.counts.unfinished = m.Metrics.Counter("lateen_agent_wasm_unfinished_files_total",
		"Files of Wasm modules that an earlier process has not written to their end, and that were removed.")
	m.counts.fetches = map[string]*metrics.Counter{}
	for _, result := range []string{fetched, downloadFailure, manifestFailure, checksumMismatch, invalidModule} {
		m.counts.fetches[result] = m.Metrics.Counter(
			prefix+"remote_fetch_count", "Fetches of Wasm modules, by result.", "result", result,
		)
	}
}

// Run removes files that nobody asks for, until ctx ends.
func (m *Modules) Run(ctx context.Context) error {
	tick := time.NewTicker(m.PurgeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			m.purge()
		}
	}
}

func (m *Modules) purge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	inUse := m.inUse()
	for sum, f := range m.files {
		if !inUse[sum] && m.Now().Sub(f.last) > m.Expiry {
			m.remove(sum)
		}
	}
}

// remove removes a file and what refers to it.
func (m *Modules) remove(sum string) {
	if err := os.Remove(m.path(sum)); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.Log.Warn("a Wasm module cannot be removed", "file", m.path(sum), "error", err)
		return
	}
	delete(m.files, sum)
	for r, to := range m.known {
		if to.module == sum {
			delete(m.known, r)
		}
	}
}

func (m *Modules) path(sum string) string { return filepath.Join(m.Dir, sum+".wasm") }

// Get returns the file of a module, which it fetches if it is not there. The error never has a
// secret in it.
func (m *Modules) Get(ctx context.Context, r Request) (string, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "", errors.New("the module's URL cannot be read")
	}
	if sum, known := m.have(r, u); known {
		m.counts.hits.Inc()
		return m.path(sum), nil
	}
	end, err := m.begin(ctx, reference{r.URL, r.Checksum})
	if err != nil {
		return "", err
	}
	defer end()
	if sum, known := m.have(r, u); known { // another filter has had it fetched
		m.counts.hits.Inc()
		return m.path(sum), nil
	}
	m.counts.misses.Inc()
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	body, err := m.fetch(ctx, r, u)
	result := fetched
	var failure *fetchError
	if errors.As(err, &failure) {
		result = failure.result
	}
	m.counts.fetches[result].Inc()
	if err != nil {
		return "", err
	}
	return m.add(r, body)
}

// begin waits until a module may be fetched: no module is by two at the same time.
func (m *Modules) begin(ctx context.Context, of reference) (end func(), err error) {
	own := make(chan struct{})
	for {
		m.mu.Lock()
		other := m.fetching[of]
		if other == nil {
			m.fetching[of] = own
		}
		m.mu.Unlock()
		if other == nil {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	release := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.fetching, of)
		close(own)
	}
	select {
	case m.places <- struct{}{}:
		return func() { <-m.places; release() }, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}

// have returns the module of a request if it is there and need not be fetched again.
func (m *Modules) have(r Request, u *url.URL) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := m.known[reference{r.URL, r.Checksum}]
	if to == nil || m.files[to.module] == nil {
		return "", false
	}
	if _, err := os.Stat(m.path(to.module)); err != nil {
		m.remove(to.module)
		return "", false
	}
	isFixed := r.Checksum != "" || strings.Contains(u.Path, "@sha256:")
	always := r.Policy == Always || r.Policy != IfNotPresent && u.Scheme == "oci" && isLatest(u.Path)
	if !isFixed && always && to.versions[r.Resource] != r.Version {
		return "", false
	}
	to.versions[r.Resource] = r.Version
	m.files[to.module].last = m.Now()
	return to.module, true
}

// isLatest reports whether an image has the tag latest, or none.
func isLatest(path string) bool {
	last := path[strings.LastIndexByte(path, '/')+1:]
	return strings.HasSuffix(last, ":latest") || !strings.Contains(last, ":")
}

// fetch fetches a module and verifies it.
func (m *Modules) fetch(ctx context.Context, r Request, u *url.URL) (body []byte, err error) {
	switch u.Scheme {
	case "http", "https":
		if !m.isAllowed(u.Host) {
			return nil, failed(downloadFailure, "%s is a host that modules may not be fetched from", u.Host)
		}
		if body, err = m.get(ctx, u); err == nil {
			body, err = m.unpacked(body)
		}
		if err != nil {
			return nil, failed(downloadFailure, "%s: %w", u.Host, err)
		}
		if sum := sumOf(body); r.Checksum != "" && sum != r.Checksum {
			return nil, failed(checksumMismatch, "the module has the checksum %s; want %s", sum, r.Checksum)
		}
	case "oci":
		found, err := m.find(ctx, u.Host+u.Path, r.Secret)
		if err != nil {
			return nil, failed(manifestFailure, "%s: %w", u.Host, err)
		}
		if r.Checksum != "" && !slices.Contains(found.digests, r.Checksum) {
			return nil, failed(checksumMismatch, "the image has the digest %s; want %s", found.digests[0], r.Checksum)
		}
		if body, err = m.module(found); err != nil {
			return nil, failed(downloadFailure, "%s: %w", u.Host, err)
		}
	default:
		return nil, failed(downloadFailure, "modules are not fetched by %s", strconv.Quote(u.Scheme))
	}
	if !isModule(body) {
		return nil, failed(invalidModule, "what %s has is no Wasm module", u.Host)
	}
	return body, nil
}

// add writes a module to its file. Another one of the same bytes is the same file.
func (m *Modules) add(r Request, body []byte) (string, error) {
	sum := sumOf(body)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.makeRoom(sum, int64(len(body))); err != nil {
		return "", err
	}
	if err := m.write(sum, body); err != nil {
		return "", fmt.Errorf("file of a Wasm module: %w", err)
	}
	m.files[sum] = &file{size: int64(len(body)), last: m.Now()}
	if len(m.known) >= maxKnown {
		clear(m.known)
	}
	key := reference{r.URL, r.Checksum}
	to := m.known[key]
	if to == nil || to.module != sum {
		to = &resolved{module: sum, versions: map[string]string{}}
		m.known[key] = to
	}
	to.versions[r.Resource] = r.Version
	return m.path(sum), nil
}

// write writes a file that is there as a whole or not at all.
func (m *Modules) write(sum string, body []byte) error {
	temporary, err := os.CreateTemp(m.Dir, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(body)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), m.path(sum))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
