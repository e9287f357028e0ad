package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
)

// folder is the files to count. No link is followed out of it, nor any other.
type folder struct {
	*os.Root
	names []string
}

// Files that are larger are not looked at, nor is more than that many.
const (
	maxFile  = 1 << 20
	maxFiles = 10_000
)

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &folder{Root: root}
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == ".":
			return err
		case err != nil:
			return nil //nolint:nilerr // what cannot be read is left out, like what is hidden
		case path != "." && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case len(s.names) >= maxFiles:
			return fs.SkipAll
		case entry.Type().IsRegular():
			if info, err := entry.Info(); err == nil && info.Size() <= maxFile {
				s.names = append(s.names, path)
			}
		}
		return nil
	})
	if err == nil && len(s.names) == 0 {
		err = fmt.Errorf("%s: no files", dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// count is the work: how many words a file has.
func (s *folder) count(name string) (int, error) {
	text, err := s.ReadFile(name)
	if err != nil {
		return 0, err
	}
	return len(bytes.Fields(text)), nil
}

// total is what has been counted so far.
type total struct{ words atomic.Int64 }

func (t *total) add(n int) { t.words.Add(int64(n)) }
