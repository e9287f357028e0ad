package durable

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// streamMajor is the oldest server that tells the lag of a group, and cleans a pending list of what was
// deleted.
const streamMajor = 7

// Check asks the server whether the queue can run on it: its version, whether it deletes
// keys when it is full, whether it takes writes, whether the user may run every command that is
// needed, and whether the queue's keys are what they should be. All that is wrong is in one
// *CheckError; any other error means that there was no answer. What a server does not tell
// counts as usable.
func (s *Stream) Check(ctx context.Context) error {
	_, err := s.Inspect(ctx)
	return err
}

// Inspect is Check, and returns besides what is doubtful but usable.
func (s *Stream) Inspect(ctx context.Context) (CheckWarnings, error) {
	if s.bad != nil {
		return nil, &CheckError{Queue: s.name, Problems: []string{s.bad.Error()}}
	}
	var found findings
	tried := streamProbes(s.keys.probe)
	args := []any{len(tried)}
	for _, p := range tried {
		args = append(args, len(p))
		for _, word := range p {
			args = append(args, word)
		}
	}
	_, answer, err := s.run(ctx, s.redis.commands, streamScripts.probe, args...)
	if denied := denial(err); denied != "" {
		found.problem("the user may not run EVAL on keys under %q (%s)", s.keys.prefix, denied)
		return nil, found.err(s.name)
	}
	if unknown(err) {
		found.problem("the server does not know EVAL")
		return nil, found.err(s.name)
	}
	if err != nil {
		return nil, err
	}
	s.judgeServer(&found, answer.text())
	if wire := answer.int(); wire > wireVersion {
		found.problem("the queue is of wire version %d, this library speaks %d: use a newer one", wire, wireVersion)
	}
	o := &s.opts
	found.judgeLimits(s.keys.prefix, &answer, [5]int64{o.MaxBacklog, int64(o.MaxCrashes), o.MaxDead, o.MaxCorrupt, o.MaxCompleted})
	found.judgeProbes(tried, answer)

	switch err := s.probeAwait(ctx); {
	case denial(err) != "":
		found.problem("the user may not run XREAD (%s)", denial(err))
	case unknown(err):
		found.problem("the server does not know XREAD")
	case err != nil:
		return nil, err
	}
	if len(found.problems) == 0 {
		switch _, err := s.Stats(ctx); {
		case isBadKey(err):
			found.problem("%v", err)
		case denial(err) != "":
			found.problem("the user may not run EVALSHA (%s)", denial(err))
		case unknown(err):
			found.problem("the server does not know EVALSHA")
		case err != nil:
			return nil, err
		}
	}
	return found.warnings, found.err(s.name)
}

// judgeServer reads INFO.
func (s *Stream) judgeServer(f *findings, info string) {
	f.judgeReplicas(info, s.redis.opts.Replicas)
	version := infoField(info, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < streamMajor {
		f.problem("the server is Redis %s, at least %d.0 is needed", version, streamMajor)
	}
	f.judgeEviction(info, s.redis.opts.AllowEviction)
}

// probeAwait asks for an XREAD that the command itself refuses, for its negative timeout: whoever
// gets that far may run it.
func (s *Stream) probeAwait(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := s.redis.commands.enter(ctx); err != nil {
		return failed(s.name, "check", ErrNotExecuted, err)
	}
	defer s.redis.commands.leave()
	client, _ := s.redis.hold(&s.queue)
	cmd := once{redis.NewCmd(ctx, "xread", "block", "-1", "streams", s.keys.probe+"stream", "0")}
	err := cmd.send(ctx, client)
	if err == nil || err == redis.Nil { //nolint:errorlint // Nil is returned as it is
		return nil
	}
	if reply, ok := asReply(err); ok && (strings.HasPrefix(reply, "ERR timeout") || strings.HasPrefix(reply, "READONLY")) {
		return nil // as it should be, or already found
	}
	return classify(s.name, "check", err)
}

// streamCommands are the Redis commands that the scripts use, taken from their texts; those that are
// several in one with the word that follows.
var streamCommands = sync.OnceValue(func() []string {
	call := regexp.MustCompile(`(?:redis\.p?call\(|in_steps\(|words = \{)'([A-Z]+)'(?:, '([A-Z]+)')?`)
	var names []string
	for _, s := range []*script{
		streamScripts.open, streamScripts.append, streamScripts.close, streamScripts.claim, streamScripts.settle,
		streamScripts.renew, streamScripts.sweep, streamScripts.leave, streamScripts.stats, streamScripts.groups,
		streamScripts.lookup, streamScripts.jobs, streamScripts.dead, streamScripts.pause, streamScripts.purge,
		streamScripts.cancel, streamScripts.cancels, streamScripts.tell,
		streamScripts.follower.open, streamScripts.follower.adopt, streamScripts.follower.follow, streamScripts.follower.unfollow,
	} {
		for _, m := range call.FindAllStringSubmatch(s.text, -1) {
			name := m[1]
			if name == "XINFO" || name == "XGROUP" {
				name += "|" + m[2]
			}
			names = append(names, name)
		}
	}
	names = append(names, "HLEN", "XLEN", "ZCARD") // of the types of keys, by a table
	slices.Sort(names)
	return slices.Compact(names)
})

// streamUses are harmless uses of every command that the scripts use, on keys of their own.
func streamUses(prefix string) map[string][]string {
	hash, zset, stream := prefix+"hash", prefix+"zset", prefix+"stream"
	return map[string][]string{
		"DEL":                {"DEL", hash, zset, stream},
		"EXISTS":             {"EXISTS", hash},
		"HDEL":               {"HDEL", hash, "f"},
		"HGET":               {"HGET", hash, "f"},
		"HGETALL":            {"HGETALL", hash},
		"HINCRBY":            {"HINCRBY", hash, "n", "1"},
		"HKEYS":              {"HKEYS", hash},
		"HLEN":               {"HLEN", hash},
		"HMGET":              {"HMGET", hash, "f"},
		"HSET":               {"HSET", hash, "n", "1"},
		"HSETNX":             {"HSETNX", hash, "n", "1"},
		"PEXPIRE":            {"PEXPIRE", hash, "1000"},
		"SCAN":               {"SCAN", "0", "MATCH", escapeGlob(prefix), "COUNT", "1"},
		"TIME":               {"TIME"},
		"TYPE":               {"TYPE", hash},
		"XACK":               {"XACK", stream, "g", "1-1"},
		"XADD":               {"XADD", stream, "*", "f", "v"},
		"XAUTOCLAIM":         {"XAUTOCLAIM", stream, "g", "c", "1000", "0", "JUSTID"},
		"XCLAIM":             {"XCLAIM", stream, "g", "c", "1000", "1-1", "JUSTID"},
		"XDEL":               {"XDEL", stream, "1-1"},
		"XGROUP|CREATE":      {"XGROUP", "CREATE", stream, "g", "0", "MKSTREAM"},
		"XGROUP|DELCONSUMER": {"XGROUP", "DELCONSUMER", stream, "g", "c"},
		"XINFO|CONSUMERS":    {"XINFO", "CONSUMERS", stream, "g"},
		"XINFO|GROUPS":       {"XINFO", "GROUPS", stream},
		"XLEN":               {"XLEN", stream},
		"XPENDING":           {"XPENDING", stream, "g", "-", "+", "1"},
		"XRANGE":             {"XRANGE", stream, "-", "+", "COUNT", "1"},
		"XREADGROUP":         {"XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", stream, ">"},
		"XREVRANGE":          {"XREVRANGE", stream, "+", "-", "COUNT", "1"},
		"XTRIM":              {"XTRIM", stream, "MAXLEN", "0"},
		"ZADD":               {"ZADD", zset, "0", "x"},
		"ZCARD":              {"ZCARD", zset},
		"ZCOUNT":             {"ZCOUNT", zset, "0", "0"},
		"ZRANGE":             {"ZRANGE", zset, "0", "0"},
		"ZRANGEBYSCORE":      {"ZRANGEBYSCORE", zset, "0", "0"},
		"ZREM":               {"ZREM", zset, "x"},
		"ZSCORE":             {"ZSCORE", zset, "x"},
	}
}

// streamProbes are the uses in an order in which each finds what it needs. The first can never grow
// anything, so that a full server lets the rest pass too, and what was made goes again.
func streamProbes(prefix string) [][]string {
	uses := streamUses(prefix)
	first, last := []string{"ZREM", "XGROUP|CREATE", "XADD"}, []string{"XDEL", "XGROUP|DELCONSUMER", "ZREM", "DEL"}
	var all [][]string
	for _, name := range first {
		all = append(all, uses[name])
	}
	for _, name := range streamCommands() {
		if !slices.Contains(first, name) && !slices.Contains(last, name) {
			all = append(all, uses[name])
		}
	}
	for _, name := range last {
		all = append(all, uses[name])
	}
	return all
}

// ACLRule is the line of an ACL file, or the arguments of ACL SETUSER, that gives user exactly
// what this queue needs, taken from the scripts themselves; a password is left to the operator.
// INFO is among it for the sake of Check, which does without where it is denied.
func (s *Stream) ACLRule(user string) string {
	words := []string{user, "on", "resetkeys", "resetchannels", "-@all", "~" + escapeGlob(s.keys.prefix) + "*"}
	commands := append([]string{"XREAD", "EVAL", "EVALSHA", "INFO"}, streamCommands()...)
	if s.redis.db != 0 {
		commands = append(commands, "SELECT")
	}
	if s.redis.named {
		commands = append(commands, "CLIENT|SETNAME")
	}
	if s.redis.cluster {
		commands = append(commands, "CLUSTER|SLOTS", "CLUSTER|SHARDS", "COMMAND", "ASKING")
	}
	slices.Sort(commands)
	for _, c := range slices.Compact(commands) {
		words = append(words, "+"+strings.ToLower(c))
	}
	return strings.Join(words, " ")
}
