package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the programs run as: the one that the charts and the injection name.
const user = 1337

// passwd and group name the user, for programs that ask who they are.
const (
	passwd = "root:x:0:0:root:/:/sbin/nologin\nistio-proxy:x:1337:1337:Lateen:/var/lib/istio:/sbin/nologin\n"
	group  = "root:x:0:\nistio-proxy:x:1337:\n"
)

// file is a file, a symbolic link or a directory of an image. Exactly one of content, from and link
// says what it is; a directory has none of them.
type file struct {
	content []byte
	from    string // a file of this machine
	link    string // what a symbolic link leads to
	mode    fs.FileMode
	owner   int // user and group
}

// files are the content of a layer, by absolute path.
type files map[string]file

// base is what every image has: who runs in it, whom it trusts, and a place for temporary files
// where the root is not read-only.
func base(o options) files {
	return files{
		"/etc/passwd":                        {content: []byte(passwd), mode: 0o644},
		"/etc/group":                         {content: []byte(group), mode: 0o644},
		"/etc/nsswitch.conf":                 {content: []byte("hosts: files dns\n"), mode: 0o644},
		"/etc/ssl/certs/ca-certificates.crt": {content: roots(), mode: 0o644},
		"/usr/share/doc/lateen/LICENSE":      {from: filepath.Join(o.source, "LICENSE"), mode: 0o644},
		"/tmp":                               {mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
}

// roots are Mozilla's root certificates in PEM. Those that Mozilla trusts only in part are left
// out, because a file of certificates cannot say so.
func roots() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		// Writing to a buffer gives no error.
		_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
	}
	return all.Bytes()
}

// writable are directories of the agent that are volumes in a Pod, and need not be without one.
func writable() files {
	all := files{}
	for _, dir := range []string{
		"/etc/istio/proxy", "/etc/istio/config", "/etc/istio/pod", "/var/lib/istio/data", "/var/run/secrets",
	} {
		all[dir] = file{mode: fs.ModeDir | 0o755, owner: user}
	}
	return all
}

// tree returns the files below a directory of this machine.
func tree(dir string) (files, error) {
	all := files{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := os.Stat(name) // of what a link leads to
		if err != nil {
			return err
		}
		all[strings.TrimPrefix(name, filepath.Clean(dir))] = file{from: name, mode: info.Mode().Perm() & 0o755}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: there are no files in it", dir)
	}
	return all, err
}

// archive writes the files as a tar archive: sorted, with their directories, and all of one time.
func (all files) archive(out io.Writer) error {
	whole := maps.Clone(all)
	for name := range all {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if _, ok := whole[dir]; !ok {
				whole[dir] = file{mode: fs.ModeDir | 0o755}
			}
		}
	}
	archive := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		if err := whole[name].archive(archive, strings.TrimPrefix(name, "/")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}

func (f file) archive(out *tar.Writer, name string) error {
	header := &tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: int64(f.mode.Perm()), Uid: f.owner, Gid: f.owner,
		ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}
	content := io.Reader(bytes.NewReader(f.content))
	switch {
	case f.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		if f.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
	case f.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
	case f.from != "":
		from, err := os.Open(f.from)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }()
		info, err := from.Stat()
		if err != nil {
			return err
		}
		header.Size, content = info.Size(), from
	default:
		header.Size = int64(len(f.content))
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(out, content)
	return err
}
