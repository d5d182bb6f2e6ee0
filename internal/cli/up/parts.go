package up

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
)

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
	return o.log.Logger(f)
}
