package durable

// streamScripts are the scripts of the stream engine; lua/stream_<verb>.lua says what each does.
var streamScripts = struct {
	open, append, close, claim, settle, renew, sweep, leave, stats, groups, probe *script
	lookup, jobs, dead, pause, purge, cancel, cancels, tell                       *script
	follower                                                                      followScripts
}{
	open:    loadScript("stream_open"),
	append:  replicated(loadScript("stream_append")),
	close:   loadScript("stream_close"),
	claim:   loadScript("stream_claim"),
	settle:  loadScript("stream_settle"),
	renew:   loadScript("stream_renew"),
	sweep:   loadScript("stream_sweep"),
	leave:   loadScript("stream_leave"),
	stats:   loadScript("stream_stats"),
	groups:  loadScript("stream_groups"),
	lookup:  loadScript("stream_lookup"),
	jobs:    loadScript("stream_jobs"),
	dead:    loadScript("stream_dead"),
	pause:   loadScript("stream_pause"),
	purge:   loadScript("stream_purge"),
	cancel:  loadScript("stream_cancel"),
	cancels: loadScript("stream_cancels"),
	tell:    loadScript("stream_tell"),
	follower: followScripts{
		open:     loadScriptFor("stream", "list_follow_open"),
		adopt:    loadScriptFor("stream", "list_adopt"),
		follow:   loadScript("stream_follow"),
		unfollow: loadScriptFor("stream", "list_unfollow"),
		record:   (*reply).streamRecord,
	},
	probe: inFull(loadScript("list_probe")),
}
