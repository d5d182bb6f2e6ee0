package history

import (
	"bufio"
	"compress/flate"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Disk keeps what a Store remembers in a directory, so that it survives a restart. A file is a
// compressed stream of records. Each process begins a new one, and whenever one is large. What is
// broken off, as by a crash, is read up to there.
type Disk struct {
	dir   string
	limit int64 // bytes, of all files

	file    *os.File // nil until something is written, and after an error
	counted *counter
	packer  *flate.Writer
	encoder *gob.Encoder
	missed  bool // a generation could not be written
}

// record is a generation, or what became of one.
type record struct {
	Entry   *entry
	Settled *Settled
}

const (
	// diskName is what files are called, with when they were begun in nanoseconds, and diskHeader
	// what they begin with: the number is of the format.
	diskName   = "generations-%020d.log"
	diskGlob   = "generations-*.log"
	diskHeader = "lateen history 1\n"
	// filesOfDisk is in how many files the limit is used.
	filesOfDisk = 8
)

// NewDisk returns a Disk in a directory, which is made if need be, of at most so many bytes.
func NewDisk(dir string, limit int64) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Disk{dir: dir, limit: limit}, nil
}

// Load has a Store remember what an earlier process has written. It returns an error for each file
// that cannot be read, or not to its end; what is before that is loaded.
func (d *Disk) Load(into *Store) error {
	files, err := d.files()
	gap := false
	for _, name := range files {
		if failed := load(name, into, &gap); failed != nil {
			gap, err = true, errors.Join(err, fmt.Errorf("%s: %w", name, failed))
		}
	}
	return err
}

// load has a Store remember a file. With a gap something before it could not be read.
func load(name string, into *Store, gap *bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReader(f)
	header := make([]byte, len(diskHeader))
	if _, err := io.ReadFull(in, header); err != nil || string(header) != diskHeader {
		return errors.New("is no history of this version of Lateen, and is left out")
	}
	decoder := gob.NewDecoder(flate.NewReader(in))
	for {
		var r record
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // a stream that nobody ended
			return nil
		case err != nil:
			return fmt.Errorf("is broken, and is read up to there: %w", err)
		case r.Entry != nil:
			r.Entry.Gap, *gap = r.Entry.Gap || *gap, false
			into.add(r.Entry)
		case r.Settled != nil:
			into.Settle(r.Settled.Generation, r.Settled.Delivery)
		}
	}
}

// files returns the files of the directory, the oldest first.
func (d *Disk) files() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(d.dir, diskGlob))
	slices.Sort(names)
	return names, err
}

// write appends a record. After an error the next one begins a new file.
func (d *Disk) write(r record) error {
	if d.missed && r.Entry != nil {
		after := *r.Entry
		after.Gap, r.Entry = true, &after
	}
	err := d.append(r)
	if r.Entry != nil {
		d.missed = err != nil
	}
	return err
}

func (d *Disk) append(r record) error {
	if d.file == nil || d.counted.n > d.limit/filesOfDisk {
		if err := d.begin(); err != nil {
			return err
		}
	}
	err := d.encoder.Encode(&r)
	if err == nil {
		err = d.packer.Flush()
	}
	if err != nil {
		return errors.Join(err, d.Close())
	}
	return nil
}

// begin begins a file, and removes the oldest so that there is room for it.
func (d *Disk) begin() error {
	if err := errors.Join(d.Close(), d.makeRoom()); err != nil {
		return err
	}
	name := filepath.Join(d.dir, fmt.Sprintf(diskName, time.Now().UnixNano()))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	d.file, d.counted = f, &counter{to: f}
	if _, err := io.WriteString(d.counted, diskHeader); err != nil {
		return errors.Join(err, d.Close(), os.Remove(name))
	}
	d.packer, _ = flate.NewWriter(d.counted, flate.BestSpeed) // it fails for unknown levels alone
	d.encoder = gob.NewEncoder(d.packer)
	return nil
}

func (d *Disk) makeRoom() error {
	files, err := d.files()
	total := int64(0)
	for _, name := range slices.Backward(files) {
		info, failed := os.Stat(name)
		switch {
		case errors.Is(failed, fs.ErrNotExist):
			continue
		case failed != nil:
			err = errors.Join(err, failed)
			continue
		}
		if total += info.Size(); total > d.limit-d.limit/filesOfDisk {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// Close closes the file that is written. The Disk may be used on.
func (d *Disk) Close() error {
	if d.file == nil {
		return nil
	}
	f := d.file
	d.file = nil
	return f.Close()
}

// counter counts the bytes that are written.
type counter struct {
	to io.Writer
	n  int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}
