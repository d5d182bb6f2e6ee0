package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// disk is what the tree sees of the file system. Paths are relative to the directory, with slashes.
type disk interface {
	// scan looks at every manifest, without reading any.
	scan() snapshot
	// read gives the content of a file, and the file's stamp after it was read.
	read(path string) ([]byte, stamp, error)
}

// stamp changes when a file is written, replaced or made readable.
type stamp struct {
	size     int64
	modified int64 // nanoseconds since the epoch
	mode     fs.FileMode
	inode    uint64
	fault    string // why it cannot even be looked at, such as a link to nothing
}

// snapshot is the content of the directory at one time.
type snapshot struct {
	files map[string]stamp
	// unreadable are directories that cannot be listed: nothing is known about their files.
	unreadable []string
	// problems are about entries of the directory that are not read, by origin.
	problems map[string][]source.Problem
	// err says that the directory itself cannot be listed.
	err error
}

// hides reports whether a path lies in a directory that cannot be listed.
func (s snapshot) hides(path string) bool {
	for _, dir := range s.unreadable {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// osDisk is a directory of the machine.
type osDisk struct {
	root string
	skip string // an absolute path that is left out: the records, should they stand inside
	// watch is called with each directory before it is listed, so that no later change is missed.
	watch func(dir string)
}

func (d *osDisk) scan() snapshot {
	s := snapshot{files: map[string]stamp{}, problems: map[string][]source.Problem{}}
	info, err := os.Stat(d.root)
	if err != nil { // its parent tells when it is back, unless that was just now
		d.watch(filepath.Dir(d.root))
		info, err = os.Stat(d.root)
	}
	switch {
	case err != nil:
		s.err = err
	case !info.IsDir():
		s.err = fmt.Errorf("it is no directory")
	default:
		s.err = d.list("", &s)
	}
	return s
}

// list adds the entries of one directory and below.
func (d *osDisk) list(dir string, s *snapshot) error {
	full := filepath.Join(d.root, filepath.FromSlash(dir))
	d.watch(full)
	entries, err := os.ReadDir(full)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // hidden files, editors' swap and lock files, .git
			continue
		}
		path := e.Name()
		if dir != "" {
			path = dir + "/" + path
		}
		if e.IsDir() {
			d.listBelow(path, s)
		} else {
			d.addFile(path, e, s)
		}
	}
	return nil
}

func (d *osDisk) listBelow(dir string, s *snapshot) {
	full := filepath.Join(d.root, filepath.FromSlash(dir))
	if absolute, err := filepath.Abs(full); err == nil && absolute == d.skip {
		return
	}
	err := d.list(dir, s)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // removed since its parent was listed
		return
	}
	s.unreadable = append(s.unreadable, dir)
	s.problems[full] = []source.Problem{{
		Severity: source.Error,
		Origin:   full,
		Message:  "the directory cannot be listed: " + reason(err) + "; the last state of its files stays in force",
		Want:     "permission to list it",
	}}
}

// addFile adds a manifest. It skips other files, and entries that are no regular files.
func (d *osDisk) addFile(path string, e fs.DirEntry, s *snapshot) {
	full := filepath.Join(d.root, filepath.FromSlash(path))
	link := e.Type()&fs.ModeSymlink != 0
	if !link && !isManifest(path) {
		return
	}
	info, err := os.Stat(full)
	switch {
	case err == nil && info.IsDir():
		s.problems[full] = []source.Problem{{
			Severity: source.Warning,
			Origin:   full,
			Message:  "a link to a directory is not followed: nothing in it is in force",
			Want:     "the files or the directory itself",
		}}
	case !isManifest(path):
	case err == nil && info.Mode().IsRegular():
		if link {
			d.watchTarget(full)
		}
		s.files[path] = stampOf(info)
	case err != nil && (link || !errors.Is(err, fs.ErrNotExist)):
		s.files[path] = stamp{fault: reason(err)}
	}
}

// watchTarget watches the directory of the file that a link points to.
func (d *osDisk) watchTarget(link string) {
	if target, err := filepath.EvalSymlinks(link); err == nil {
		d.watch(filepath.Dir(target))
	}
}

func (d *osDisk) read(path string) ([]byte, stamp, error) {
	f, err := os.Open(filepath.Join(d.root, filepath.FromSlash(path)))
	if err != nil {
		return nil, stamp{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, manifest.MaxFileSize+1))
	if err != nil {
		return nil, stamp{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	return data, stampOf(info), nil
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano(), mode: info.Mode()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = system.Ino
	}
	return s
}

// isManifest reports whether a file is read, by its name.
func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// reason returns an error of the file system without the path, which the origin has.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}
