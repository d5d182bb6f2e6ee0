package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogLevelsAreShownAndSet as istioctl admin log asks.
func TestLogLevelsAreShownAndSet(t *testing.T) {
	var level slog.LevelVar
	h := NewLogHandler(&level, nil)
	ask := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, "http://localhost:9876"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:4711"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	code, text := ask(http.MethodGet, "/scopej/", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `[{"name": "default", "description": "everything that the control plane logs",
		"output_level": "info", "stack_trace_level": "none", "log_callers": false}]`, text)
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "WARN": slog.LevelWarn, "error": slog.LevelError, "none": silence,
		"info": slog.LevelInfo,
	} {
		code, text = ask(http.MethodPut, "/scopej/default", `{"name": "default", "output_level": "`+name+`"}`)
		require.Equal(t, http.StatusAccepted, code, text)
		require.Equal(t, want, level.Level())
		_, text = ask(http.MethodGet, "/scopej/default", "")
		require.Contains(t, text, `"output_level": "`+strings.ToLower(name)+`"`)
	}
	level.Set(slog.LevelInfo)
	for _, bad := range []struct {
		path, body, says string
		code             int
	}{
		{"/scopej/ads", `{"output_level": "debug"}`, `there is no scope "ads"; want default`, http.StatusNotFound},
		{"/scopej/default", `{"output_level": "loud"}`, "want debug, info, warn, error or none", http.StatusBadRequest},
		{"/scopej/default", `{`, "the body is no scope in JSON", http.StatusBadRequest},
		{
			"/scopej/default", `{"output_level": "info", "stack_trace_level": "error"}`,
			"stack traces and callers are not logged", http.StatusBadRequest,
		},
		{
			"/scopej/default", `{"name": "` + strings.Repeat("x", maxScopeBytes) + `"}`,
			"too large", http.StatusBadRequest,
		},
	} {
		code, text = ask(http.MethodPut, bad.path, bad.body)
		require.Equal(t, bad.code, code)
		require.Contains(t, text, bad.says)
	}
	require.Equal(t, slog.LevelInfo, level.Level(), "what is refused changes nothing")
}

// TestLogLevelsAreForThisMachineAlone: no other machine and no page that a browser shows.
func TestLogLevelsAreForThisMachineAlone(t *testing.T) {
	var level slog.LevelVar
	h := NewLogHandler(&level, nil)
	for name, change := range map[string]func(*http.Request){
		"another machine": func(r *http.Request) { r.RemoteAddr = "10.0.0.7:4711" },
		"another name":    func(r *http.Request) { r.Host = "evil.test" },
		"another page":    func(r *http.Request) { r.Header.Set("Origin", "http://evil.test") },
	} {
		r := httptest.NewRequest(http.MethodPut, "http://localhost:9876/scopej/default",
			strings.NewReader(`{"output_level": "none"}`))
		r.RemoteAddr = "127.0.0.1:4711"
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code, name)
	}
	require.Equal(t, slog.LevelInfo, level.Level())
}
