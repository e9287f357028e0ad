package main

import (
	"compress/flate"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
)

// book is the pages to compress.
type book []page

type page struct {
	text string
	size int64 // compressed
}

// newBook writes one with pages of that size. It is the same every time.
func newBook(pageSize int) book {
	const pages, words = 16, 500
	random := rand.New(rand.NewPCG(1, 2))
	var vocabulary [words]string
	for i := range vocabulary {
		word := make([]byte, 2+random.IntN(9))
		for j := range word {
			word[j] = "etaoinshrdlcumwfgypbvk"[min(random.IntN(22), random.IntN(22))]
		}
		vocabulary[i] = string(word)
	}
	b := make(book, pages)
	for i := range b {
		var text strings.Builder
		for text.Len() < pageSize {
			text.WriteString(vocabulary[min(random.IntN(words), random.IntN(words))])
			text.WriteByte(' ')
		}
		b[i].text = text.String()[:pageSize]
		b[i].size = compress(b[i].text)
	}
	return b
}

// work compresses the n-th page.
func (b book) work(n int) func(context.Context) error {
	p := &b[n%len(b)]
	return func(context.Context) error {
		if size := compress(p.text); size != p.size {
			return fmt.Errorf("page %d has %d bytes, not %d", n%len(b), size, p.size)
		}
		return nil
	}
}

var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(io.Discard, flate.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	return w
}}

// count is a writer that only counts.
type count int64

func (c *count) Write(p []byte) (int, error) {
	*c += count(len(p))
	return len(p), nil
}

// compress returns the size. Writing to a count cannot fail, nor can compressing to it.
func compress(text string) int64 {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var size count
	w.Reset(&size)
	if _, err := io.WriteString(w, text); err != nil {
		return -1
	}
	if err := w.Close(); err != nil {
		return -1
	}
	return int64(size)
}
