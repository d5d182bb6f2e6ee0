package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
)

// onlyScope is the one scope of logging that there is.
const onlyScope = "default"

// maxScopeBytes bounds what is read of a scope.
const maxScopeBytes = 4 << 10

// silence is the level above all that are logged, which Istio calls none.
const silence = slog.LevelError + 1

// logScope is a scope of logging in JSON, as Istio's ControlZ has it.
type logScope struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Level       string `json:"output_level,omitempty"`
	Stacks      string `json:"stack_trace_level,omitempty"`
	Callers     bool   `json:"log_callers"`
}

// logging answers requests about what is logged.
type logging struct{ level *slog.LevelVar }

// NewLogHandler returns the pages of Istio's ControlZ by which `istioctl admin log` shows and sets
// what is logged: GET and PUT of /scopej/. They are for the same clients as the pages below /debug.
func NewLogHandler(level *slog.LevelVar, hosts []string) http.Handler {
	h, l := handler{Options: Options{Hosts: hosts}}, logging{level}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /scopej/{$}", h.guarded(l.list))
	mux.HandleFunc("GET /scopej/{scope}", h.guarded(l.show))
	mux.HandleFunc("PUT /scopej/{scope}", h.guarded(l.set))
	return mux
}

func (l logging) list(w http.ResponseWriter, _ *http.Request) { writeJSON(w, []logScope{l.scope()}) }

func (l logging) show(w http.ResponseWriter, r *http.Request) {
	if l.known(w, r) {
		writeJSON(w, l.scope())
	}
}

func (l logging) set(w http.ResponseWriter, r *http.Request) {
	if !l.known(w, r) {
		return
	}
	var wanted logScope
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxScopeBytes)).Decode(&wanted)
	if err != nil {
		http.Error(w, fmt.Sprintf("the body is no scope in JSON: %v", err), http.StatusBadRequest)
		return
	}
	if stacks := strings.ToLower(wanted.Stacks); stacks != "" && stacks != "none" || wanted.Callers {
		http.Error(w, "stack traces and callers are not logged; want output_level alone", http.StatusBadRequest)
		return
	}
	name := strings.ToLower(wanted.Level)
	if name == "fatal" { // no line is above an error
		name = "error"
	}
	level, known := logLevels()[name]
	if !known {
		http.Error(w, fmt.Sprintf("output_level = %.64q; want debug, info, warn, error or none", wanted.Level),
			http.StatusBadRequest)
		return
	}
	l.level.Set(level)
	w.WriteHeader(http.StatusAccepted)
}

// known answers for scopes that do not exist.
func (l logging) known(w http.ResponseWriter, r *http.Request) bool {
	if r.PathValue("scope") == onlyScope {
		return true
	}
	http.Error(w, fmt.Sprintf("there is no scope %.64q; want %s", r.PathValue("scope"), onlyScope), http.StatusNotFound)
	return false
}

func (l logging) scope() logScope {
	now := logScope{Name: onlyScope, Description: "everything that the control plane logs", Stacks: "none"}
	for name, level := range logLevels() {
		if level == l.level.Level() {
			now.Level = name
		}
	}
	return now
}

// logLevels returns the levels by Istio's names.
func logLevels() map[string]slog.Level {
	return map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
		"none": silence,
	}
}
