package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// FindEnvoy looks for the Envoy binary where make puts it, and then on the PATH.
func FindEnvoy(flag string) (string, error) {
	candidates := []string{flag, os.Getenv("LATEEN_ENVOY")}
	if flag == "" && candidates[1] == "" {
		candidates = append(candidates, filepath.Join(".tools", "envoy"))
		if self, err := os.Executable(); err == nil {
			candidates = append(candidates, filepath.Join(filepath.Dir(self), "..", ".tools", "envoy"))
		}
		if path, err := exec.LookPath("envoy"); err == nil {
			candidates = append(candidates, path)
		}
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		if info, err := os.Stat(c); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return filepath.Abs(c)
		}
		if c == flag || c == candidates[1] {
			return "", fmt.Errorf("%s is not an executable file; want the path of an Envoy binary", c)
		}
	}
	return "", errors.New("there is no Envoy: 'make envoy' fetches it to .tools/envoy, or name one with --envoy")
}
