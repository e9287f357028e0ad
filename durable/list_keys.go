package durable

import "strings"

// listKeys are the keys of one list queue. This is the only place where they are named in Go;
// keys made from an ID or an identity are named in lua/list_base.lua and where it is included.
type listKeys struct {
	prefix            string
	fixed             []string // in the order of lua/list_base.lua
	pending, arriving string
	wake              string // of a sorted-set queue
	probe             string // the beginning of the keys that Check uses
	processingPattern string // matches every consumer's list
}

func newListKeys(prefix string) *listKeys {
	k := &listKeys{
		prefix:            prefix,
		pending:           prefix + "pending",
		arriving:          prefix + "arriving",
		probe:             prefix + "probe:",
		processingPattern: escapeGlob(prefix) + "processing:*",
	}
	k.fixed = []string{
		prefix + "meta", prefix + "counters", k.pending, k.arriving,
		prefix + "scheduled", prefix + "dead", prefix + "corrupt", prefix + "reasons", prefix + "consumers",
		prefix + "completed",
	}
	return k
}

// newSortedSetKeys are those of a sorted-set queue: the same, but that nothing arrives, and wake is in its place.
func newSortedSetKeys(prefix string) *listKeys {
	k := newListKeys(prefix)
	k.arriving, k.wake = "", prefix+"wake"
	k.fixed[3] = k.wake
	return k
}

// escapeGlob makes a pattern that matches s and nothing else.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// hasHashTag reports whether a cluster would keep all keys that begin with prefix together:
// whether a part in braces, not empty, comes to its end in it.
func hasHashTag(prefix string) bool {
	_, rest, ok := strings.Cut(prefix, "{")
	if !ok {
		return false
	}
	tag, _, ok := strings.Cut(rest, "}")
	return ok && tag != ""
}
