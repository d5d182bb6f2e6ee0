package perf

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

func TestPerfOfTheDebounce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts control planes")
	}
	var out strings.Builder
	cmd := Command(console.Plain(&out), console.Plain(&strings.Builder{}))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"debounce", "--services", "10", "--namespaces", "1", "--sidecars", "3", "--changes", "1",
		"--long", "1s", "--calm", "20ms", "-o", "json"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	var r struct {
		Settings []struct {
			Setting string
			Report  struct {
				Phases []struct {
					Name    string
					Latency struct {
						Count int
						P50   float64
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r))
	require.Len(t, r.Settings, 2)
	require.Equal(t, "default", r.Settings[0].Setting)
	require.Equal(t, "PILOT_DEBOUNCE_AFTER=100ms", r.Settings[1].Setting)
	for _, s := range r.Settings {
		var arrivals []int
		for _, p := range s.Report.Phases[2:] {
			arrivals = append(arrivals, p.Latency.Count)
		}
		require.Equal(t, []int{3, 3, 120, 120, 1500, 1500}, arrivals, s.Setting)
	}
	require.GreaterOrEqual(t, r.Settings[1].Report.Phases[2].Latency.P50, 0.09,
		"nothing goes before 100 ms have been quiet")
}

func TestDebounceSettings(t *testing.T) {
	lookup := func(value string, ok bool) func(string) (string, bool) {
		return func(string) (string, bool) { return value, ok }
	}
	require.Equal(t, []debounceSetting{
		{"default", "default", []string{"HOME=/"}},
		{"PILOT_DEBOUNCE_AFTER=100ms", "explicit", []string{"HOME=/", "PILOT_DEBOUNCE_AFTER=100ms"}},
	}, debounceSettings([]string{"HOME=/", "LATEEN_DEBOUNCE_EARLY=0s"}, lookup("", false)))
	require.Equal(t, []debounceSetting{
		{"default", "default", []string{"HOME=/"}},
		{"PILOT_DEBOUNCE_AFTER=2s", "explicit", []string{"HOME=/", "PILOT_DEBOUNCE_AFTER=2s"}},
	}, debounceSettings([]string{"PILOT_DEBOUNCE_AFTER=2s", "HOME=/"}, lookup("2s", true)))
}
