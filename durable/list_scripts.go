package durable

// listScripts are the scripts of the list engine; lua/list_<verb>.lua says what each does.
var listScripts = struct {
	open, append, close, claim, settle, renew, sweep, leave, stats, probe *script
	lookup, jobs, dead, pause, purge                                      *script
}{
	open:   loadScript("list_open"),
	append: replicated(loadScript("list_append")),
	close:  loadScript("list_close"),
	claim:  loadScript("list_claim"),
	settle: loadScript("list_settle"),
	renew:  loadScript("list_renew"),
	sweep:  loadScript("list_sweep"),
	leave:  loadScript("list_leave"),
	stats:  loadScript("list_stats"),
	probe:  inFull(loadScript("list_probe")),
	lookup: loadScript("list_lookup"),
	jobs:   loadScript("list_jobs"),
	dead:   loadScript("list_dead"),
	pause:  loadScript("list_pause"),
	purge:  loadScript("list_purge"),
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
