package xdsproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// recordKind is what a record of the log says.
type recordKind uint64

const (
	recordHeader  recordKind = iota + 1 // name: the node whose configuration it is
	recordPut                           // a resource of a batch
	recordRemoved                       // the name of a resource that a batch removes
	recordCommit                        // a batch counts from here on
	recordForget                        // a resource is gone, whatever the batch
)

// record is one entry of the log: its length and its checksum in 4 bytes each, and a message with
// these fields.
type record struct {
	kind    recordKind  // 1
	batch   uint64      // 2
	typeURL string      // 3
	name    string      // 4
	body    wire.Reader // 5, the message discovery.v3.Resource; the last field
}

const recordHead = 8 // bytes

// errTorn is the error of a record that was not written to its end.
var errTorn = errors.New("the record is incomplete")

// recordLog is a file of records.
type recordLog struct {
	file *os.File
	out  *bufio.Writer
	size int64 // with what is not flushed yet
}

// openLog opens a log for reading and appending, or makes one.
func openLog(path string) (*recordLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &recordLog{file: file, out: bufio.NewWriter(file), size: info.Size()}, nil
}

// begin makes the log empty but for its header.
func (l *recordLog) begin(node string) error {
	if err := l.cut(0); err != nil {
		return err
	}
	return errors.Join(l.write(record{kind: recordHeader, name: node}), l.flush())
}

// cut shortens the log.
func (l *recordLog) cut(size int64) error {
	if err := l.file.Truncate(size); err != nil {
		return err
	}
	l.size = size
	_, err := l.file.Seek(size, io.SeekStart)
	return err
}

func (l *recordLog) write(r record) error {
	head := make([]byte, recordHead, recordHead+64+len(r.typeURL)+len(r.name))
	head = protowire.AppendVarint(protowire.AppendTag(head, 1, protowire.VarintType), uint64(r.kind))
	head = protowire.AppendVarint(protowire.AppendTag(head, 2, protowire.VarintType), r.batch)
	head = wire.AppendString(head, 3, r.typeURL)
	head = wire.AppendString(head, 4, r.name)
	head = protowire.AppendTag(head, 5, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(r.body.Left())) //nolint:gosec // it is not negative

	sum := crc32.ChecksumIEEE(head[recordHead:])
	body := r.body
	body.Each(body.Left(), func(part []byte) { sum = crc32.Update(sum, crc32.IEEETable, part) })
	length := len(head) - recordHead + r.body.Left()
	binary.LittleEndian.PutUint32(head, uint32(length)) //nolint:gosec // messages are smaller
	binary.LittleEndian.PutUint32(head[4:], sum)

	_, err := l.out.Write(head)
	body = r.body
	body.Each(body.Left(), func(part []byte) {
		if err == nil {
			_, err = l.out.Write(part)
		}
	})
	l.size += int64(recordHead + length)
	return err
}

func (l *recordLog) flush() error { return l.out.Flush() }

func (l *recordLog) close() error { return errors.Join(l.flush(), l.file.Close()) }

// read returns the record at an offset, and its size. At the end of the log it returns io.EOF.
func (l *recordLog) read(at int64) (r record, size int64, err error) {
	if at == l.size {
		return r, 0, io.EOF
	}
	var head [recordHead]byte
	if _, err := l.file.ReadAt(head[:], at); err != nil {
		return r, 0, errors.Join(errTorn, err)
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	if at+recordHead+length > l.size {
		return r, 0, errTorn
	}
	content := make([]byte, length)
	if _, err := l.file.ReadAt(content, at+recordHead); err != nil {
		return r, 0, errors.Join(errTorn, err)
	}
	if crc32.ChecksumIEEE(content) != binary.LittleEndian.Uint32(head[4:]) {
		return r, 0, errTorn
	}
	r, err = parseRecord(content)
	return r, recordHead + length, err
}

func parseRecord(content []byte) (r record, err error) {
	in := wire.NewReader(mem.BufferSlice{mem.SliceBuffer(content)})
	for f := (wire.Field{}); in.Next(&f); {
		switch {
		case f.Number == 1:
			r.kind = recordKind(f.Value)
		case f.Number == 2:
			r.batch = f.Value
		case f.Number == 3:
			r.typeURL = in.String(f)
		case f.Number == 4:
			r.name = in.String(f)
		case f.Number == 5 && f.Size >= 0:
			r.body = in.Message(f.Size)
		default:
			in.Pass(f)
		}
	}
	if in.Err() != nil {
		return r, fmt.Errorf("%w: %w", errTorn, in.Err())
	}
	return r, nil
}

// resourceMessage returns a message discovery.v3.Resource.
func resourceMessage(name, version, typeURL string, body wire.Reader) wire.Reader {
	value := wire.AppendString(nil, anyType, typeURL)
	value = protowire.AppendTag(value, anyValue, protowire.BytesType)
	value = protowire.AppendVarint(value, uint64(body.Left())) //nolint:gosec // it is not negative
	body.Each(body.Left(), func(part []byte) { value = append(value, part...) })
	b := wire.AppendString(nil, resourceVersion, version)
	b = wire.AppendBytes(b, resourceBody, value)
	return wire.NewReader(mem.BufferSlice{mem.SliceBuffer(wire.AppendString(b, resourceName, name))})
}
