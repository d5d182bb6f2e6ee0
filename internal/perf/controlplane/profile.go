package controlplane

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"runtime/pprof"
	"sync"
)

// ProfilePath starts a CPU profile of a child (POST), and returns it (GET).
const ProfilePath = "/debug/perf/cpu"

// CollectPath makes a child return memory to the system (POST).
const CollectPath = "/debug/perf/collect"

// Profiles serves ProfilePath and CollectPath in a child, at a separate address.
func Profiles() http.Handler {
	var mu sync.Mutex
	var recorded bytes.Buffer
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ProfilePath, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		recorded.Reset()
		if err := pprof.StartCPUProfile(&recorded); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("GET "+ProfilePath, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		pprof.StopCPUProfile()
		_, _ = w.Write(recorded.Bytes())
	})
	mux.HandleFunc("POST "+CollectPath, func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	return mux
}
