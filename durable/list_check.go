package durable

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The oldest server on which the scripts run: they ask for the time and write afterwards, which a
// server permits that replicates what a script does, and not its text. That is so since Redis 5.0, unless
// the operator has set it otherwise. Of the rest, HSET with several fields is the youngest, of 4.0.
const (
	minMajor = 5
	minMinor = 0
)

// CheckWarnings is what a check found that does not prevent the use of the queue.
type CheckWarnings []string

// Check asks the server whether the queue can run on it: its version, whether it deletes
// keys when it is full, whether it takes writes, whether the user may run every command that is
// needed, and whether the queue's keys are what they should be. All that is wrong is in one
// *CheckError; any other error means that there was no answer. What a server does not tell
// (managed ones, some stand-ins) counts as usable.
func (l *List) Check(ctx context.Context) error {
	_, err := l.Inspect(ctx)
	return err
}

// Inspect is Check, and returns besides what is doubtful but usable.
func (l *List) Inspect(ctx context.Context) (CheckWarnings, error) {
	if l.bad != nil {
		return nil, &CheckError{Queue: l.name, Problems: []string{l.bad.Error()}}
	}
	var found findings
	tried := probes(l.keys.probe, l.scripts.commands)
	args := []any{len(tried)}
	for _, p := range tried {
		args = append(args, len(p))
		for _, word := range p {
			args = append(args, word)
		}
	}
	_, answer, err := l.run(ctx, l.redis.commands, l.scripts.probe, args...)
	if denied := denial(err); denied != "" {
		found.problem("the user may not run EVAL on keys under %q (%s)", l.keys.prefix, denied)
		return nil, found.err(l.name)
	}
	if unknown(err) {
		found.problem("the server does not know EVAL")
		return nil, found.err(l.name)
	}
	if err != nil {
		return nil, err
	}
	l.judgeServer(&found, answer.text())
	if wire := answer.int(); wire > wireVersion {
		found.problem("the queue is of wire version %d, this library speaks %d: use a newer one", wire, wireVersion)
	}
	o := &l.opts
	found.judgeLimits(l.keys.prefix, &answer, [5]int64{o.MaxBacklog, int64(o.MaxCrashes), o.MaxDead, o.MaxCorrupt, o.MaxCompleted})
	found.judgeProbes(tried, answer)
	if l.step > 0 {
		l.judgeAgeing(&found, answer[min(len(tried), len(answer)):])
	}

	switch command, err := l.probeAwaits(ctx); {
	case denial(err) != "":
		found.problem("the user may not run %s (%s)", command, denial(err))
	case unknown(err):
		found.problem("the server knows neither BLMOVE nor BRPOPLPUSH")
	case err != nil:
		return nil, err
	case l.older.Load():
		found.warnings = append(found.warnings, "the server has no BLMOVE: BRPOPLPUSH is used")
	}
	if len(found.problems) == 0 {
		switch _, err := l.Stats(ctx); {
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
	return found.warnings, found.err(l.name)
}

// findings collects what a check sees.
type findings struct {
	problems []string
	warnings CheckWarnings
}

func (f *findings) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

func (f *findings) err(queue string) error {
	if len(f.problems) == 0 {
		return nil
	}
	return &CheckError{Queue: queue, Problems: f.problems}
}

// judgeServer reads INFO.
func (l *List) judgeServer(f *findings, info string) {
	if version := infoField(info, "redis_version"); version != "" && older(version) {
		f.problem("the server is Redis %s, at least %d.%d is needed", version, minMajor, minMinor)
	}
	f.judgeReplicas(info, l.redis.opts.Replicas)
	f.judgeEviction(info, l.redis.opts.AllowEviction)
}

// judgeEviction looks whether the server deletes keys when it is full.
func (f *findings) judgeEviction(info string, allowed bool) {
	switch policy := infoField(info, "maxmemory_policy"); {
	case strings.HasPrefix(policy, "allkeys-") && !allowed:
		f.problem("maxmemory-policy is %s: the server deletes jobs when it is full; set noeviction (or AllowEviction)", policy)
	case strings.HasPrefix(policy, "allkeys-"), strings.HasPrefix(policy, "volatile-"):
		f.warnings = append(f.warnings, "maxmemory-policy is "+policy+": the server may delete keys when it is full; noeviction is safe")
	}
}

// judgeReplicas compares how many replicas there are with how many are waited for.
func (f *findings) judgeReplicas(info string, asked int) {
	if n, err := strconv.Atoi(infoField(info, "connected_slaves")); err == nil && n < asked {
		f.warnings = append(f.warnings, fmt.Sprintf("RedisOptions.Replicas is %d and the server has %d: every append will wait for RedisOptions.ReplicaWait", asked, n))
	}
}

// judgeLimits compares the limits with those of whoever has opened the queue last: MaxBacklog, MaxCrashes, MaxDead,
// MaxCorrupt, MaxCompleted.
func (f *findings) judgeLimits(prefix string, answer *reply, own [5]int64) {
	for i, name := range [5]string{"MaxBacklog", "MaxCrashes", "MaxDead", "MaxCorrupt", "MaxCompleted"} {
		if theirs := answer.text(); theirs != "" && theirs != strconv.FormatInt(own[i], 10) {
			f.warnings = append(f.warnings, fmt.Sprintf("%s is %d here, and was %s for whoever opened the queue last (%smeta says who and when): everybody should set the same",
				name, own[i], theirs, prefix))
		}
	}
}

// judgeAgeing compares what a level of priority counts with what it did for whoever has opened the queue last.
func (l *List) judgeAgeing(f *findings, answer reply) {
	if theirs := answer.int(); theirs > 0 && theirs != l.step.Microseconds() {
		f.warnings = append(f.warnings, fmt.Sprintf("Ageing is %v here, and was %v for whoever opened the queue last (%smeta says who and when): everybody should set the same",
			l.step, time.Duration(theirs)*time.Microsecond, l.keys.prefix))
	}
}

// infoField finds one line of an INFO answer; "" when it is not there.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// older reports whether a version is certainly below the oldest that will do.
func older(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (major < minMajor || major == minMajor && minor < minMinor)
}

// judgeProbes reads the error of each command that was tried.
func (f *findings) judgeProbes(tried [][]string, answer reply) {
	readOnly, verbatim := false, false
	for _, p := range tried {
		text := answer.text()
		switch {
		case text == "":
		case strings.Contains(text, "READONLY"):
			readOnly = true
		case strings.Contains(text, "after non deterministic commands"):
			verbatim = true
		case strings.Contains(text, "at least one of the keys"), strings.Contains(text, "No permissions to access a key"):
			f.problem("the user may not use keys like %q", p[1])
			return
		case deniedText(text):
			f.problem("the user may not run %s", permission(p))
		case strings.Contains(strings.ToLower(text), "unknown"):
			f.problem("the server does not know %s", p[0])
		}
	}
	if verbatim {
		f.problem("the server replicates the text of scripts instead of what they do: set lua-replicate-commands to yes")
	}
	if readOnly {
		f.problem("the server is a read-only replica: connect to the primary")
	}
}

// permission is what an ACL calls a command: XINFO and XGROUP are several in one.
func permission(command []string) string {
	if command[0] == "XINFO" || command[0] == "XGROUP" {
		return command[0] + "|" + command[1]
	}
	return command[0]
}

// deniedText recognises a refusal for lack of permission, outside and inside of a script.
func deniedText(text string) bool {
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command") ||
		strings.Contains(text, "no permissions to run")
}

// denial is the server's text when err is such a refusal, else "".
func denial(err error) string {
	if reply, ok := asReply(err); ok && deniedText(reply) {
		return reply
	}
	return ""
}

// unknown reports whether err is a server's refusal of a command that it does not have.
func unknown(err error) bool {
	text, ok := asReply(err)
	return ok && strings.HasPrefix(text, "ERR unknown command")
}

// probeAwaits asks for the command of Consumer.Await and that of Follower.Await in a way that the command itself refuses, with a negative
// timeout: whoever gets that far may run it. One that blocks, however shortly, comes back with the server's
// next tick only, a tenth of a second later, and would keep a lane from everybody else for so long.
func (l *List) probeAwaits(ctx context.Context) (command string, err error) {
	ctx, cancel := l.bound(ctx)
	defer cancel()
	if err := l.redis.commands.enter(ctx); err != nil {
		return "", failed(l.name, "check", ErrNotExecuted, err)
	}
	defer l.redis.commands.leave()
	client, _ := l.redis.hold(&l.queue)
	err = l.refused(l.wait(ctx, client, l.keys.probe+"from", l.keys.probe+"to", l.keys.probe+"list", -1))
	if err != nil {
		return l.waiter(), err
	}
	return "XREAD", l.refused(waitForNews(ctx, client, l.keys.probe+"told", firstEntry, -1).Err())
}

// refused is nil if a probe came to what it was to come to, or to what is found by other means.
func (l *List) refused(err error) error {
	if err == nil || err == redis.Nil || redis.IsOOMError(err) { //nolint:errorlint // Nil is returned as it is
		return nil
	}
	if reply, ok := asReply(err); ok && (strings.HasPrefix(reply, "ERR timeout") || strings.HasPrefix(reply, "READONLY")) {
		return nil // as it should be, or already found
	}
	return classify(l.name, "check", err)
}

// probes are harmless uses of every command that the scripts use, on keys of their own. The
// first write can never grow anything, so that a full server lets the rest pass too; and as in the
// scripts, the time is asked for before it.
func probes(prefix string, commands []string) [][]string {
	hash, list, zset, stream := prefix+"hash", prefix+"list", prefix+"zset", prefix+"stream"
	uses := map[string][]string{
		"DEL":             {"DEL", hash, list, zset, stream},
		"EXISTS":          {"EXISTS", hash},
		"HDEL":            {"HDEL", hash, "f"},
		"HGET":            {"HGET", hash, "f"},
		"HGETALL":         {"HGETALL", hash},
		"HLEN":            {"HLEN", hash},
		"HINCRBY":         {"HINCRBY", hash, "n", "1"},
		"HMGET":           {"HMGET", hash, "f"},
		"HSET":            {"HSET", hash, "n", "1"},
		"HSETNX":          {"HSETNX", hash, "n", "1"},
		"HSTRLEN":         {"HSTRLEN", hash, "f"},
		"LLEN":            {"LLEN", list},
		"LPUSH":           {"LPUSH", list, "x"},
		"LRANGE":          {"LRANGE", list, "0", "0"},
		"LREM":            {"LREM", list, "1", "x"},
		"LTRIM":           {"LTRIM", list, "1", "0"},
		"PEXPIRE":         {"PEXPIRE", hash, "1000"},
		"RPUSH":           {"RPUSH", list, "x"},
		"SCAN":            {"SCAN", "0", "MATCH", escapeGlob(prefix), "COUNT", "1"},
		"TIME":            {"TIME"},
		"TYPE":            {"TYPE", hash},
		"XADD":            {"XADD", stream, "MAXLEN", "~", "1", "*", "f", "x"},
		"XTRIM":           {"XTRIM", stream, "MAXLEN", "0"},
		"ZADD":            {"ZADD", zset, "0", "x"},
		"ZCARD":           {"ZCARD", zset},
		"ZCOUNT":          {"ZCOUNT", zset, "0", "0"},
		"ZRANGE":          {"ZRANGE", zset, "0", "0"},
		"ZRANGEBYSCORE":   {"ZRANGEBYSCORE", zset, "0", "0"},
		"ZREM":            {"ZREM", zset, "x"},
		"ZREMRANGEBYRANK": {"ZREMRANGEBYRANK", zset, "1", "0"},
		"ZSCORE":          {"ZSCORE", zset, "x"},
	}
	last := []string{"LTRIM", "ZREM", "DEL"}
	all := [][]string{uses["TIME"], uses["ZREM"]}
	for _, name := range commands {
		if name != "TIME" && !slices.Contains(last, name) {
			all = append(all, uses[name])
		}
	}
	// What was made goes again, also where DEL is denied: the hash expires then.
	for _, name := range last {
		all = append(all, uses[name])
	}
	return all
}

// ACLRule is the line of an ACL file, or the arguments of ACL SETUSER, that gives user exactly
// what this queue needs, taken from the scripts themselves; a password is left to the operator.
// INFO is among it for the sake of Check, which does without where it is denied. Where Check, or a
// consumer, has found that the server has no BLMOVE, the line is one that such a server takes: with
// BRPOPLPUSH, and without a word about channels, for which no command is given anyhow.
func (l *List) ACLRule(user string) string {
	words := []string{user, "on", "resetkeys"}
	if !l.older.Load() {
		words = append(words, "resetchannels")
	}
	words = append(words, "-@all", "~"+escapeGlob(l.keys.prefix)+"*")
	commands := append([]string{l.waiter(), "EVAL", "EVALSHA", "INFO", "XREAD"}, l.scripts.commands...)
	if l.redis.opts.Replicas > 0 {
		commands = append(commands, "WAIT")
	}
	if l.redis.db != 0 {
		commands = append(commands, "SELECT")
	}
	if l.redis.named {
		commands = append(commands, "CLIENT|SETNAME")
	}
	if l.redis.cluster {
		commands = append(commands, "CLUSTER|SLOTS", "CLUSTER|SHARDS", "COMMAND", "ASKING")
	}
	slices.Sort(commands)
	for _, c := range slices.Compact(commands) {
		words = append(words, "+"+strings.ToLower(c))
	}
	return strings.Join(words, " ")
}
