package main

import (
	"crypto/sha256"
	"time"
)

// owners are the parts of the program that measure.
var owners = [...]string{"http", "db", "cache"}

// measure is one sample.
type measure struct {
	N     int   `json:"n"` // the samples of all owners are numbered through
	Nanos int64 `json:"ns"`
}

// probe measures: how long it takes to hash a block, a larger one for each owner.
type probe struct {
	taken int
	block [4096]byte
}

func newProbe() *probe { return &probe{} }

func (p *probe) take() (owner int, m measure) {
	owner = p.taken % len(owners)
	begun := time.Now()
	sum := sha256.Sum256(p.block[:512<<owner])
	took := time.Since(begun)
	copy(p.block[:], sum[:])
	m = measure{N: p.taken, Nanos: took.Nanoseconds()}
	p.taken++
	return owner, m
}
