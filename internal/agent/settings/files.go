package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	labelsFile      = "./etc/istio/pod/labels"
	annotationsFile = "./etc/istio/pod/annotations"
	// maxFile bounds each file that settings are read from.
	maxFile = 1 << 20
)

// readFile returns the content of a file, or "" when there is none.
func readFile(files fs.FS, name string) (string, error) {
	f, err := files.Open(strings.TrimPrefix(path.Clean(name), "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(content) > maxFile {
		return "", fmt.Errorf("%s: has more than %d bytes", name, maxFile)
	}
	return string(content), nil
}

// downward reads labels or annotations as the downward API writes them: name="quoted value", one in
// a line. Without a file there are none.
func downward(files fs.FS, name string) (map[string]string, error) {
	text, err := readFile(files, name)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(text) {
		key, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("%s: the value of %s is not quoted: %s", name, key, quoted)
		}
		all[key] = value
	}
	return all, nil
}

// override returns the part of a bootstrap in a file as JSON. $(HOST_IP) in it stands for the
// node's address.
func override(files fs.FS, name, hostIP string) (string, error) {
	text, err := readFile(files, name)
	if err != nil {
		return "", err
	}
	if text == "" {
		return "", fmt.Errorf("%s does not exist or is empty", name)
	}
	if strings.Contains(hostIP, ":") {
		hostIP = "[" + hostIP + "]"
		text = strings.ReplaceAll(text, "[$(HOST_IP)]", hostIP)
	}
	text = strings.ReplaceAll(text, "$(HOST_IP)", hostIP)
	var content any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		return "", fmt.Errorf("%s is no YAML: %w", name, err)
	}
	if _, ok := content.(map[string]any); !ok {
		return "", fmt.Errorf("%s is no object of a bootstrap", name)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(b.String()), nil
}
