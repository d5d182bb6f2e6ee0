package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindEnvoy returns the path of Envoy: see FindProgram.
func FindEnvoy(flag string) (string, error) { return FindProgram("envoy", flag) }

// FindProgram returns the program that a flag names, else that of $LATEEN_NAME, of .tools here or
// beside the binary, where make puts it, or of PATH.
func FindProgram(name, flag string) (string, error) {
	variable := "LATEEN_" + strings.ToUpper(name)
	candidates := []string{flag, os.Getenv(variable)}
	if flag == "" && candidates[1] == "" {
		candidates = append(candidates, filepath.Join(".tools", name))
		if self, err := os.Executable(); err == nil {
			candidates = append(candidates, filepath.Join(filepath.Dir(self), "..", ".tools", name))
		}
		if path, err := exec.LookPath(name); err == nil {
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
			return "", fmt.Errorf("%s is not an executable file; want the path of a binary of %s", c, name)
		}
	}
	return "", fmt.Errorf("there is no %s: 'make %[1]s' puts it into .tools, or name one with --%[1]s or $%s", name,
		variable)
}
