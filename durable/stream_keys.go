package durable

// streamKeys are the keys of one stream queue and group. This is the only place where they are named in Go;
// keys made from an ID or an identity, and those of other groups, are named in lua/stream_base.lua and
// where it is included.
type streamKeys struct {
	prefix       string
	fixed        []string // in the order of lua/stream_base.lua
	stream, wake string
	probe        string // the beginning of the keys that Check uses
	jobs         string // matches every job's record
}

func newStreamKeys(prefix, group string) *streamKeys {
	own := "@" + group
	if group == DefaultGroup {
		own = ""
	}
	k := &streamKeys{
		prefix: prefix,
		stream: prefix + "stream",
		wake:   prefix + "wake" + own,
		probe:  prefix + "probe:",
		jobs:   escapeGlob(prefix) + "job:*",
	}
	k.fixed = []string{
		prefix + "meta", prefix + "counters", k.stream, prefix + "scheduled",
		prefix + "accounts" + own, k.wake, prefix + "returned" + own, prefix + "retries" + own,
		prefix + "dead" + own, prefix + "corrupt" + own, prefix + "consumers" + own, prefix + "completed" + own,
	}
	return k
}
