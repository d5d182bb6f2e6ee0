package cel_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/cel"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// taken are expressions that Envoy takes.
var taken = []string{
	`response.code >= 400`,
	`connection.mtls && request.url_path.contains('v1beta3')`,
	`!has(request.useragent) || !(request.useragent.startsWith("Amazon-Route53-Health-Check-Service"))`,
	`request.path.matches("^/a.*") || matches(request.path, '^\\d+$') || request.path.matches(r'\d')`,
	`size(request.path) > 3 && request.path.size() < 0x1F`,
	`request.path + "a" == "b"`,
	`request.headers['x-a'] == 'b' && 'a' in request.headers`,
	`timestamp("2020-01-01T00:00:00Z") < request.time || duration("1s") < request.duration`,
	`int("1") == 1 && double(response.code) > 0.5 && uint(1) == 1u && 1.5e3 > 1.0`,
	"response.code in [400, 500,\n503] ? true : false",
	"\"a\\x41\\u0041\\101\\n\\`\\\"\" == '\\''",
	`request.time.getFullYear() > 1 && request.time.getHours("UTC") >= 0`,
	`dyn(1) == 1 && bool("true") && bytes("a") == bytes('a')`,
	`-response.code < 0 && response.code % 2 == 0 && 2 * (3 - 1) / 4 == 1`,
	`has(request.path) && null == null`,
	`filter_state['x'] == 'a' || xds.cluster_name == 'a' || metadata.filter_metadata['a']['b'] == 'c'`,
	strings.Repeat("(", 31) + "1" + strings.Repeat(")", 31),
}

// refused are expressions that Envoy does not take, or of which it would make nothing.
var refused = map[string]string{
	``:                               "ends too early",
	`response.code >=`:               "ends too early",
	`a && `:                          "has the attribute a, which Envoy does not have, at byte 1",
	`nofunc(1)`:                      "has the function nofunc, which Envoy does not have, at byte 1",
	`request.path.lowerAscii()`:      "has the function lowerAscii, which Envoy does not have, at byte 14",
	`request.path.matches("(")`:      "gives matches() no regular expression: error parsing regexp: missing closing ): `(`",
	`request.path.matches(1)`:        "gives matches() a pattern that is no text",
	`request.headers.exists(x, x)`:   "has the function exists, which Envoy does not have, at byte 17",
	`[1].all(1, 2)`:                  "has the function all",
	`has(request)`:                   `gives has() no field, as "request.useragent", at byte 1`,
	`size(request.path, 1)`:          "gives the function size 2 arguments",
	`string(response.code) == "1"`:   "has the function string",
	`request.?path == 1`:             `has "?" where nothing like it may stand, at byte 9`,
	`'a' 'b'`:                        `has "b" where nothing like it may stand, at byte 5`,
	`99999999999999999999 == 1`:      "has a number that is too large",
	`1.5u`:                           "has a number that is none",
	`"\q" == 'a'`:                    "has a text with an escape that CEL does not know",
	`"\uD800" == ''`:                 "has a text with an escape",
	`in`:                             `has "in" where`,
	`for == 1`:                       `has "for" where`,
	`1 == 1 # a`:                     "has a character that begins nothing, at byte 8",
	`"open`:                          "has a character that begins nothing, at byte 1",
	`(1`:                             "ends too early",
	`[1 2]`:                          `has "2" where`,
	strings.Repeat("(", 40):          "is nested too deep",
	strings.Repeat("1 + ", 2000):     "has more than 4096 bytes",
	`Foo{a: 1}`:                      "has the attribute Foo",
	`request.path.startsWith("a", 1`: "ends too early",
}

func TestCheck(t *testing.T) {
	for _, e := range taken {
		require.NoError(t, cel.Check(e), e)
	}
	for e, want := range refused {
		require.ErrorContains(t, cel.Check(e), want, e)
	}
}

// formats are those that Envoy gets for expressions.
var formats = map[string]string{
	`request.host`:                       `%CEL(request.host):128%`,
	` string(destination.port) `:         `%CEL(destination.port):128%`,
	`string(1) + string(2)`:              "",
	`string((1))`:                        `%CEL((1)):128%`,
	`node.metadata['NAME']`:              `%CEL(xds.node.metadata['NAME']):128%`,
	`"node.id"`:                          `%CEL("node.id"):128%`,
	`(response.code)%7`:                  `%CEL((response.code) % 7):128%`,
	`node.id%7%2 == node.id`:             `%CEL(xds.node.id % 7 % 2 == xds.node.id):128%`,
	"request.path\n\t== 'a'":             `%CEL(request.path  == 'a'):128%`,
	`response.code == 1 ? (1):2`:         `%CEL(response.code == 1 ? (1):2):128%`,
	`"):8%"`:                             "",
	`')%'`:                               "",
	`"%"`:                                `%CEL("%"):128%`,
	`request.path ==`:                    "",
	`filter_state.upstream_peer.app`:     "",
	`filter_state["wasm.upstream_peer"]`: "",
	`filter_state["mine"]`:               `%CEL(filter_state["mine"]):128%`,
}

func TestFormat(t *testing.T) {
	for e, want := range formats {
		got, err := cel.Format(e)
		require.Equal(t, want, got, e)
		require.Equal(t, want == "", err != nil, e)
	}
	_, err := cel.Format(`(string(1))`)
	require.ErrorContains(t, err, "has the function string, which Envoy does not have, at byte 2")
	_, err = cel.Format(strings.Repeat(" ", 94<<10) + "1 +" + strings.Repeat(" 1", 47<<10))
	require.ErrorContains(t, err, "has more than 4096 bytes")
	require.ErrorContains(t, cel.Check("node.id == 'a'"), "has the attribute node", "a filter of access logs")
}

// Envoy takes what Check and Format take: all expressions are filters of one listener.
func TestEnvoyTakesWhatIsTaken(t *testing.T) {
	type object = map[string]any
	const types = "type.googleapis.com/envoy.extensions."
	var logs []object
	for _, e := range taken {
		logs = append(logs, object{
			"name": "envoy.access_loggers.file",
			"filter": object{"extension_filter": object{
				"name": "envoy.access_loggers.extension_filters.cel",
				"typed_config": object{
					"@type": types + "access_loggers.filters.cel.v3.ExpressionFilter", "expression": e,
				},
			}},
			"typed_config": object{"@type": types + "access_loggers.file.v3.FileAccessLog", "path": "/dev/null"},
		})
	}
	var tags []object
	for _, e := range append(slices.Collect(maps.Keys(formats)), taken...) {
		if format, err := cel.Format(e); err == nil {
			tags = append(tags, object{"name": "tag", "value_format": format})
		}
	}
	logs = append(logs, object{
		"name": "envoy.access_loggers.stats",
		"typed_config": object{
			"@type": types + "access_loggers.stats.v3.Config", "stats_scope": object{"prefix": "x"},
			"counters": []object{{"stat": object{"name": "x", "tags": tags}, "value_fixed": 1}},
		},
	})
	config, err := json.Marshal(object{"static_resources": object{
		"clusters": []object{{"name": "c"}},
		"listeners": []object{{
			"name":       "l",
			"address":    object{"socket_address": object{"address": "127.0.0.1", "port_value": 0}},
			"access_log": logs,
			"filter_chains": []object{{"filters": []object{{
				"name": "envoy.filters.network.tcp_proxy",
				"typed_config": object{
					"@type": types + "filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "x", "cluster": "c",
				},
			}}}},
		}},
	}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "envoy.json")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	out, err := exec.Command(realenvoy.Binary(t), "--mode", "validate", "-c", file, "-l", "warning").CombinedOutput()
	require.NoError(t, err, string(out))
}

func FuzzCheck(f *testing.F) {
	for _, e := range taken {
		f.Add(e)
	}
	for e := range refused {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, e string) {
		if err := cel.Check(e); err != nil {
			require.NotEmpty(t, err.Error())
		}
		if format, err := cel.Format(e); err == nil {
			require.Equal(t, strings.Index(format, "):128%"), len(format)-len("):128%"))
		}
	})
}
