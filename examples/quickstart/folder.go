package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/seed-9dec4fca/weir/bridge"
)

// blockSize is how much one job reads. Larger files are several jobs.
const blockSize = 64 << 10

// maxBlocks bounds what is remembered of a large folder.
const maxBlocks = 100_000

// block is the work of one job: a part of one file.
type block struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
}

// folder is what there is to do. It never leaves the folder it was opened on: os.Root
// refuses links that point out of it, and no link is followed in the first place.
type folder struct {
	*os.Root
	blocks []block
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{Root: root}
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
		case len(f.blocks) >= maxBlocks:
			return fs.SkipAll
		case entry.Type().IsRegular():
			if info, err := entry.Info(); err == nil {
				f.add(path, info.Size())
			}
		}
		return nil
	})
	if err == nil && len(f.blocks) == 0 {
		err = fmt.Errorf("%s: no files with anything in them", dir)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

func (f *folder) add(path string, size int64) {
	for at := int64(0); at < size && len(f.blocks) < maxBlocks; at += blockSize {
		f.blocks = append(f.blocks, block{path, at, int(min(blockSize, size-at))})
	}
}

// size is how much there is to read, for a person.
func (f *folder) size() string {
	var n int64
	for _, b := range f.blocks {
		n += int64(b.Length)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

var buffers = sync.Pool{New: func() any { return new([blockSize]byte) }}

// sum is the handler's work. A file that is gone is gone for good; one that
// became shorter may just be being written, and is read again.
func (f *folder) sum(ctx context.Context, b block) ([sha256.Size]byte, error) {
	var none [sha256.Size]byte
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if b.Length < 0 || b.Length > blockSize {
		return none, bridge.Permanent(fmt.Errorf("block of %d bytes", b.Length))
	}
	file, err := f.Open(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, bridge.Permanent(err)
	}
	if err != nil {
		return none, err
	}
	defer file.Close()
	buf := buffers.Get().(*[blockSize]byte)
	defer buffers.Put(buf)
	if _, err := file.ReadAt(buf[:b.Length], b.Offset); err != nil && !errors.Is(err, io.EOF) {
		return none, err
	} else if err != nil {
		return none, fmt.Errorf("%s became shorter", b.Path)
	}
	return sha256.Sum256(buf[:b.Length]), nil
}

// sums collects what the handlers found out. A block may be done many times: the
// offering goes round, and a job is delivered at least once, so adding must be idempotent.
type sums struct {
	mu sync.Mutex
	of map[block][sha256.Size]byte
}

func newSums() *sums { return &sums{of: map[block][sha256.Size]byte{}} }

func (s *sums) add(b block, sum [sha256.Size]byte) {
	s.mu.Lock()
	s.of[b] = sum
	s.mu.Unlock()
}

// line is the result: one checksum over those of all blocks, in order.
func (s *sums) line(f *folder) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := sha256.New()
	done := 0
	order := func(a, b block) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Offset, b.Offset))
	}
	for _, b := range slices.SortedFunc(slices.Values(f.blocks), order) {
		if sum, ok := s.of[b]; ok {
			all.Write(sum[:])
			done++
		}
	}
	return fmt.Sprintf("\n%d of %d blocks done, together sha256 %x\n", done, len(f.blocks), all.Sum(nil)[:8])
}
