package dir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// records keeps the last valid reading of each file on disk, one JSON file for each, so that a
// restart finds the same objects in force. Without a directory nothing is kept.
type records struct {
	dir    string
	logger *slog.Logger
	// written are the digests of what stands on the disk.
	written map[string][sha256.Size]byte
	// failures has the files whose reading could not be recorded, and why.
	failures map[string]string
}

// record is the form on the disk.
type record struct {
	File    string         `json:"file"`
	Objects []recordObject `json:"objects"`
}

type recordObject struct {
	Kind      kinds.Kind      `json:"kind"`
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	Line      int             `json:"line"`
	Object    json.RawMessage `json:"object"`
}

func newRecords(dir string, logger *slog.Logger) *records {
	return &records{dir: dir, logger: logger, written: map[string][sha256.Size]byte{}, failures: map[string]string{}}
}

// load returns the recorded documents by file; their objects are not decoded yet. A record that
// cannot be read is skipped with a line in the log: its file is then read as if it were new.
func (r *records) load() map[string][]manifest.Document {
	files := map[string][]manifest.Document{}
	if r.dir == "" {
		return files
	}
	names, err := filepath.Glob(filepath.Join(r.dir, "*"+recordSuffix))
	if err != nil { // the directory's name has brackets that are no pattern
		r.logger.Error("the state directory cannot be listed", "directory", r.dir, "error", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		var content record
		if err == nil {
			err = json.Unmarshal(data, &content)
		}
		if err != nil || name != r.fileName(content.File) {
			r.logger.Error("a recorded reading cannot be used", "record", name, "error", err)
			continue
		}
		r.written[content.File] = sha256.Sum256(data)
		files[content.File] = content.documents()
	}
	return files
}

func (c record) documents() []manifest.Document {
	documents := make([]manifest.Document, 0, len(c.Objects))
	for _, o := range c.Objects {
		documents = append(documents, manifest.Document{
			Key:  source.Key{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Line: o.Line,
			JSON: o.Object,
		})
	}
	return documents
}

// save records the documents of a file. If there are none it removes the record.
func (r *records) save(path string, documents []manifest.Document) error {
	if r.dir == "" {
		return nil
	}
	err := r.write(path, documents)
	if err != nil {
		r.failures[path] = reason(err)
	} else {
		delete(r.failures, path)
	}
	return err
}

func (r *records) write(path string, documents []manifest.Document) error {
	name := r.fileName(path)
	if len(documents) == 0 {
		delete(r.written, path)
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	content := record{File: path}
	for _, d := range documents {
		content.Objects = append(content.Objects, recordObject{d.Key.Kind, d.Key.Namespace, d.Key.Name, d.Line, d.JSON})
	}
	data, err := encode(content)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(data)
	if r.written[path] == digest {
		return nil
	}
	if err := replaceFile(name, data); err != nil {
		return err
	}
	r.written[path] = digest
	return nil
}

// encode writes a record so that its objects keep their bytes: equal objects are recognized by
// them.
func encode(content record) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(content)
	return out.Bytes(), err
}

// failure returns why some reading is not recorded, or "".
func (r *records) failure() string {
	for _, why := range r.failures {
		return why
	}
	return ""
}

const recordSuffix = ".reading.json"

// fileName returns the path of a file's record. It holds a digest, because paths have slashes and
// may be long.
func (r *records) fileName(path string) string {
	digest := sha256.Sum256([]byte(path))
	return filepath.Join(r.dir, hex.EncodeToString(digest[:16])+recordSuffix)
}

// replaceFile writes a file so that its name never stands for a part of the content. It does not
// sync the disk: after a power failure a record may be missing, and load copes with that.
func replaceFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+strings.TrimSuffix(filepath.Base(name), recordSuffix)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary.Name()))
	}
	return err
}
