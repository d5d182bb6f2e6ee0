package wasm

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// handOver is how long a file is kept that was asked for, until Envoy has its filter.
const handOver = time.Minute

// use says which file a filter that Envoy has names; empty for none of a module.
func (m *Modules) use(filter, path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, isModule := strings.CutSuffix(filepath.Base(path), ".wasm")
	if filepath.Dir(path) != m.Dir || !isModule {
		sum = ""
	}
	before := m.inForce[filter]
	if f := m.files[before]; f != nil && before != sum {
		f.last = m.Now() // Envoy may still refuse what takes its place
	}
	if sum == "" {
		delete(m.inForce, filter)
		return
	}
	m.inForce[filter] = sum
}

// inUse returns the checksums of the files that filters in force name. mu is held.
func (m *Modules) inUse() map[string]bool {
	all := make(map[string]bool, len(m.inForce))
	for _, sum := range m.inForce {
		all[sum] = true
	}
	return all
}

// makeRoom removes files that were not asked for the longest. It returns an error if those that are
// in use leave no room. mu is held.
func (m *Modules) makeRoom(sum string, size int64) error {
	inUse := m.inUse()
	for {
		total, oldest := size, ""
		for s, f := range m.files {
			if s == sum {
				continue
			}
			total += f.size
			if inUse[s] || m.Now().Sub(f.last) < handOver {
				continue
			}
			if oldest == "" || f.last.Before(m.files[oldest].last) {
				oldest = s
			}
		}
		if total <= 4*m.MaxBytes {
			return nil
		}
		if oldest != "" {
			m.remove(oldest)
		}
		if oldest == "" || m.files[oldest] != nil {
			return fmt.Errorf("with it the modules in use would have %d bytes; want at most %d, four times "+
				"ISTIO_WASM_MAX_BINARY_SIZE_BYTES", total, 4*m.MaxBytes)
		}
	}
}
