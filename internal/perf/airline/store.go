package airline

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

// store is the database of one service: objects by keys, in one bucket.
type store struct{ db *bbolt.DB }

// bucketName is that of the one bucket.
func bucketName() []byte { return []byte("objects") }

func openStore(dir, name string) (*store, error) {
	// What is measured is the way to the service: the operating system writes when it likes to.
	db, err := bbolt.Open(filepath.Join(dir, name+".db"), 0o600, &bbolt.Options{Timeout: 5 * time.Second, NoSync: true})
	if err != nil {
		return nil, fmt.Errorf("the database of %s: %w", name, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucketName())
		return err
	})
	return &store{db}, err
}

func (s *store) close() error { return s.db.Close() }

// get reads an object, and reports whether there is one.
func (s *store) get(key string, into any) (there bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		encoded := tx.Bucket(bucketName()).Get([]byte(key))
		if there = encoded != nil; !there {
			return nil
		}
		return json.Unmarshal(encoded, into)
	})
	return there, err
}

func (s *store) put(key string, object any) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketName()).Put([]byte(key), encoded) })
}

// fill writes many objects at once.
func (s *store) fill(objects map[string]any) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for key, o := range objects {
			encoded, err := json.Marshal(o)
			if err != nil {
				return err
			}
			if err := tx.Bucket(bucketName()).Put([]byte(key), encoded); err != nil {
				return err
			}
		}
		return nil
	})
}
