package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
)

// findEnvoy looks for the Envoy binary where make puts it, and then on the PATH.
func findEnvoy(flag string) (string, error) {
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

// stateDirOf returns the state directory of a manifest directory. It has the same name, with a
// digest of the path appended if the state directory of that name belongs to another manifest
// directory. So no mesh reads records of another.
func stateDirOf(parent, dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	state := filepath.Join(parent, filepath.Base(path))
	owner, err := os.ReadFile(filepath.Join(state, ownerFile))
	if err == nil && string(owner) != path {
		digest := sha256.Sum256([]byte(path))
		state += "-" + hex.EncodeToString(digest[:4])
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return "", err
	}
	return state, os.WriteFile(filepath.Join(state, ownerFile), []byte(path), 0o644)
}

// ownerFile is the file in a state directory that contains the path of its manifest directory.
const ownerFile = "directory"

// openLog writes the log to a file beside those of the pods, because the screen is for people.
func openLog(o upOptions) (*slog.Logger, error) {
	if err := os.MkdirAll(o.stateDir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(o.stateDir, "lateen.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return newLogger(f, o.level, o.format)
}
