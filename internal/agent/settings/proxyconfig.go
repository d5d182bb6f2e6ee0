package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	defaultCluster    = "istio-proxy"
	defaultDiscovery  = "istiod.istio-system.svc:15012"
	annotationConfig  = "proxy.istio.io/config"
	annotationAddress = "sidecar.istio.io/discoveryAddress"
	annotationStatus  = "status.sidecar.istio.io/port"
)

// proxyConfig are the fields of Istio's ProxyConfig that the agent reads.
type proxyConfig struct {
	ConfigPath               string            `json:"configPath"`
	BinaryPath               string            `json:"binaryPath"`
	ServiceCluster           string            `json:"serviceCluster"`
	DrainDuration            duration          `json:"drainDuration"`
	TerminationDrainDuration duration          `json:"terminationDrainDuration"`
	DiscoveryAddress         string            `json:"discoveryAddress"`
	ProxyAdminPort           int32             `json:"proxyAdminPort"`
	StatusPort               int32             `json:"statusPort"`
	Concurrency              *int32            `json:"concurrency"`
	ControlPlaneAuthPolicy   string            `json:"controlPlaneAuthPolicy"`
	ProxyMetadata            map[string]string `json:"proxyMetadata"`
	RuntimeValues            map[string]string `json:"runtimeValues"`
	ExtraStatTags            []string          `json:"extraStatTags"`
	FileFlushInterval        duration          `json:"fileFlushInterval"`
	FileFlushMinSizeKB       uint32            `json:"fileFlushMinSizeKb"`
	StatsCompression         *bool             `json:"statsCompression"`
	ProxyStatsMatcher        struct {
		InclusionPrefixes []string `json:"inclusionPrefixes"`
		InclusionSuffixes []string `json:"inclusionSuffixes"`
		InclusionRegexps  []string `json:"inclusionRegexps"`
	} `json:"proxyStatsMatcher"`
	EnvoyMetricsService struct {
		Address string `json:"address"`
	} `json:"envoyMetricsService"`
	ReadinessProbe     *readinessProbe `json:"readinessProbe"`
	ConnectionSettings struct {
		GlobalDownstreamConnectionLimit uint32 `json:"globalDownstreamConnectionLimit"`
	} `json:"connectionSettings"`
}

// readElsewhere are fields that others read: the control plane or the injector. Fields that are in
// neither list are noted.
var readElsewhere = []string{
	"envoyAccessLogService", "gatewayTopology", "holdApplicationUntilProxyStarts", "image", "interceptionMode",
	"proxyHeaders", "tracing",
	"zipkinAddress",
	"statNameLength", "meshId", "parentShutdownDuration",
}

// duration is one as protobuf writes them in JSON ("5s"), or as Go does ("1m").
type duration struct{ time.Duration }

// UnmarshalJSON reads a string.
func (d *duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%s is no duration; want one as \"5s\"", data)
	}
	var err error
	if d.Duration, err = time.ParseDuration(s); err != nil || d.Duration < 0 {
		return fmt.Errorf("%q is no duration; want one as \"5s\"", s)
	}
	return nil
}

// defaults are what holds where nothing else is said.
func defaults() map[string]any {
	return map[string]any{
		"configPath":               "./etc/istio/proxy",
		"binaryPath":               "/usr/local/bin/envoy",
		"serviceCluster":           defaultCluster,
		"drainDuration":            "45s",
		"terminationDrainDuration": "5s",
		"discoveryAddress":         defaultDiscovery,
		"proxyAdminPort":           15000,
		"statusPort":               15020,
		"controlPlaneAuthPolicy":   "MUTUAL_TLS",
		"statNameLength":           189,
	}
}

// layer is one place where a ProxyConfig may stand.
type layer struct {
	place string
	text  string
}

// mergeConfig lays the places over each other: a field of a later one replaces that of an earlier
// one. Only proxyMetadata is merged by its keys, as Istio does.
func mergeConfig(layers []layer) (map[string]any, error) {
	merged := defaults()
	var errs []error
	for _, l := range layers {
		fields, err := parseFields(l.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.place, err))
			continue
		}
		if err := check(fields); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.place, err))
			continue
		}
		for name, value := range fields {
			if name == "proxyMetadata" {
				value = mergeKeys(merged[name], value)
			}
			if value != nil {
				merged[name] = value
			}
		}
	}
	return merged, errors.Join(errs...)
}

func mergeKeys(below, above any) any {
	base, ok := below.(map[string]any)
	if !ok {
		return above
	}
	over, _ := above.(map[string]any)
	all := make(map[string]any, len(base)+len(over))
	for k, v := range base {
		all[k] = v
	}
	for k, v := range over {
		all[k] = v
	}
	return all
}

// check decodes the fields of one place, so that an error can say which place is wrong.
func check(fields map[string]any) error {
	_, err := decodeConfig(fields)
	return err
}

// parseFields reads YAML, of which JSON is a part. Names are those of Istio's JSON; those of its
// protobuf are taken too.
func parseFields(text string) (map[string]any, error) {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return nil, fmt.Errorf("is no YAML of a ProxyConfig: %w", err)
	}
	named := make(map[string]any, len(fields))
	for name, value := range fields {
		named[camelCase(name)] = value
	}
	return named, nil
}

func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func decodeConfig(fields map[string]any) (proxyConfig, error) {
	var c proxyConfig
	data, err := json.Marshal(fields)
	if err != nil {
		return c, fmt.Errorf("cannot be written as JSON: %w", err)
	}
	err = json.NewDecoder(bytes.NewReader(data)).Decode(&c)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return c, fmt.Errorf("%s: a %s; want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return c, err
}

// unread returns the names of the fields that nobody reads, sorted.
func unread(fields map[string]any) []string {
	var all []string
	known := append(slices.Clone(readElsewhere), readHere...)
	for name := range fields {
		if !slices.Contains(known, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// readHere are the names of proxyConfig's fields (TestConfigReadsTheseFields).
var readHere = []string{
	"configPath", "binaryPath", "serviceCluster", "drainDuration", "terminationDrainDuration", "discoveryAddress",
	"proxyAdminPort", "statusPort", "concurrency", "controlPlaneAuthPolicy", "proxyMetadata", "runtimeValues",
	"extraStatTags",
	"fileFlushInterval", "fileFlushMinSizeKb", "statsCompression", "proxyStatsMatcher", "connectionSettings",
	"envoyMetricsService", "readinessProbe",
}

// meshFile returns the defaultConfig of the mesh configuration that gateways mount, or nothing when
// there is no such file.
func meshFile(files fs.FS, name string) ([]layer, error) {
	text, err := readFile(files, name)
	if text == "" || err != nil {
		return nil, err
	}
	var mesh struct {
		DefaultConfig map[string]any `yaml:"defaultConfig"`
	}
	if err := yaml.Unmarshal([]byte(text), &mesh); err != nil {
		return nil, fmt.Errorf("%s: is no YAML of a MeshConfig: %w", name, err)
	}
	if mesh.DefaultConfig == nil {
		return nil, nil
	}
	data, err := json.Marshal(mesh.DefaultConfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return []layer{{place: name + ": defaultConfig", text: string(data)}}, nil
}
