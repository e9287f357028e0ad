package main

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/seed-9dec4fca/weir/examples/internal/scene"
)

// document is the work of one job.
type document struct {
	Producer int    `json:"producer"`
	N        int    `json:"n"`
	Text     []byte `json:"text"`
}

var words = [...]string{"water", "weir", "flood", "gate", "river", "dam", "level", "stream", "pool", "rain"}

// newDocument makes the n-th of a producer: some kilobytes of text, the same each time.
func newDocument(producer, n int) document {
	dice := rand.New(rand.NewPCG(uint64(producer), uint64(n)))
	var text bytes.Buffer
	for size := 4<<10 + dice.IntN(8<<10); text.Len() < size; {
		text.WriteString(words[dice.IntN(len(words))])
		text.WriteByte(' ')
	}
	return document{producer, n, text.Bytes()}
}

func (d document) id() string { return fmt.Sprintf("producer-%d-%d", d.Producer, d.N) }

// compress is the work, and returns how much is left of the text.
func (d document) compress() (int, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(d.Text); err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return out.Len(), nil
}

// sums are what a process has counted itself.
type sums struct {
	Documents int64
	Bytes     int64
	Checksums uint64 // the sum of all
	Repeated  int64  // deliveries after the first
	// Had are the documents, a bit for each, by producer. Consumers only.
	Had     map[int][]byte `json:",omitempty"`
	Twice   int64          // documents that one consumer had more than once
	Account scene.Account
}

func (s *sums) add(d document) {
	s.Documents++
	s.Bytes += int64(len(d.Text))
	s.Checksums += uint64(crc32.ChecksumIEEE(d.Text))
}

// had notes which document it was.
func (s *sums) had(d document) {
	if s.Had == nil {
		s.Had = map[int][]byte{}
	}
	bits := s.Had[d.Producer]
	for len(bits) <= d.N/8 {
		bits = append(bits, 0)
	}
	if bits[d.N/8]&(1<<(d.N%8)) != 0 {
		s.Twice++
	}
	bits[d.N/8] |= 1 << (d.N % 8)
	s.Had[d.Producer] = bits
}

// merge adds what another process has counted, and returns how many documents both have had.
func (s *sums) merge(o sums) (both int) {
	s.Documents += o.Documents
	s.Bytes += o.Bytes
	s.Checksums += o.Checksums
	s.Repeated += o.Repeated
	s.Twice += o.Twice
	s.Account.Merge(o.Account)
	for producer, bits := range o.Had {
		for i, b := range bits {
			for n := range 8 {
				if b&(1<<n) == 0 {
					continue
				}
				if s.has(producer, i*8+n) {
					both++
				}
				s.had(document{Producer: producer, N: i*8 + n})
			}
		}
	}
	return both
}

func (s *sums) has(producer, n int) bool {
	bits := s.Had[producer]
	return n/8 < len(bits) && bits[n/8]&(1<<(n%8)) != 0
}

// String is for a person.
func (s *sums) String() string {
	return fmt.Sprintf("%5d documents, %8d bytes, checksums %016x", s.Documents, s.Bytes, s.Checksums)
}

// What a child says at its end: saysSums, and its sums in JSON.
const saysSums = "sums "

func (s *sums) line() (string, error) {
	text, err := json.Marshal(s)
	return saysSums + string(text), err
}
