package durable

import (
	"regexp"
	"slices"
)

// listScriptSet are the scripts of a list or a sorted-set queue; lua/list_<verb>.lua says what each does.
type listScriptSet struct {
	open, append, close, claim, settle, renew, sweep, leave, stats, probe *script
	lookup, jobs, dead, pause, purge, limit, cancel, cancels              *script
	tell                                                                  *script
	follower                                                              followScripts

	commands []string // the Redis commands that they use
}

var (
	listScripts      = loadListScripts("list")
	sortedSetScripts = loadListScripts("zset")
)

// loadListScripts loads them for an engine: they differ in what they include as ready.
func loadListScripts(engine string) *listScriptSet {
	load := func(name string) *script { return loadScriptFor(engine, name) }
	s := &listScriptSet{
		open:   load("list_open"),
		append: replicated(load("list_append")),
		close:  load("list_close"),
		claim:  load("list_claim"),
		settle: load("list_settle"),
		renew:  load("list_renew"),
		sweep:  load("list_sweep"),
		leave:  load("list_leave"),
		stats:  load("list_stats"),
		probe:  inFull(load("list_probe")),
		lookup: load("list_lookup"),
		jobs:   load("list_jobs"),
		dead:   load("list_dead"),
		pause:  load("list_pause"),
		purge:  load("list_purge"),
		limit:  load("list_limit"),

		cancel:  load("list_cancel"),
		cancels: load("list_cancels"),

		follower: followScripts{
			open:     load("list_follow_open"),
			adopt:    load("list_adopt"),
			follow:   load("list_follow"),
			unfollow: load("list_unfollow"),
			record:   (*reply).listRecord,
		},
		tell: load("list_tell"),
	}
	s.commands = commandsOf(s.open, s.append, s.close, s.claim, s.settle, s.renew, s.sweep, s.leave, s.stats,
		s.lookup, s.jobs, s.dead, s.pause, s.purge, s.limit, s.cancel, s.cancels, s.follower.open, s.follower.adopt,
		s.follower.follow, s.follower.unfollow, s.tell)
	return s
}

var scriptCall = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// commandsOf are the Redis commands that scripts use, taken from their texts, in alphabetical order.
func commandsOf(scripts ...*script) []string {
	var names []string
	for _, s := range scripts {
		for _, m := range scriptCall.FindAllStringSubmatch(s.text, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// inFull makes a script one that is never sent by its hash.
func inFull(s *script) *script {
	s.always = true
	return s
}

// replicated makes a script one behind which replicas are waited for.
func replicated(s *script) *script {
	s.replicated = true
	return s
}

// MaxIDBytes is the longest ID of a job that the list engine stores and claims.
const MaxIDBytes = 1024

// Codes with which an answer of a script begins; a claim's is a ClaimStatus otherwise.
const (
	replyOK      = "OK"
	replyBadKey  = "BADKEY"  // key, type, wanted type
	replyWire    = "WIRE"    // the queue's version
	replyUnknown = "UNKNOWN" // no record of the sender
	replyOld     = "OLD"
	replyFenced  = "FENCED"
	replyExpired = "EXPIRED"
)
