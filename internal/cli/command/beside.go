package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// FindBeside returns the path of a program that stands beside this one, or in $PATH.
func FindBeside(program string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		beside := filepath.Join(filepath.Dir(self), program)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("the program %s is neither beside %s nor in $PATH; want both: make build makes them",
			program, self)
	}
	return path, err
}
