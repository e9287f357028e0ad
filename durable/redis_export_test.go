package durable

import "github.com/redis/go-redis/v9"

// OwnClient makes the client that r would make.
func OwnClient(r *Redis) redis.UniversalClient { return r.connect(newGate(commandLane + renewalLane)) }

// Class is the class of an error that go-redis returned.
func Class(err error) error { return class(err) }

// HasHashTag reports whether a prefix has a hash tag.
func HasHashTag(prefix string) bool { return hasHashTag(prefix) }

// Older reports whether a version of Redis is too old.
func Older(version string) bool { return older(version) }

// EscapeGlob makes a pattern that matches s alone.
func EscapeGlob(s string) string { return escapeGlob(s) }

// DecodeAll decodes an answer in every way there is, and returns the number of claims.
func DecodeAll(got any) int {
	code, r, err := decodeReply(got)
	if err != nil {
		return 0
	}
	for _, decode := range []func(reply){
		func(r reply) { _ = r.refusal(code) },
		func(r reply) { _, _, _ = r.appended() },
		func(r reply) { _, _ = r.settled(2) },
	} {
		decode(r)
	}
	c, _ := r.claimed(code, "token")
	return len(c.Jobs)
}

// DecodeRefusals decodes the list of refused positions.
func DecodeRefusals(text string) ([]Refusal, error) { return decodeRefusals(text) }

// UntriedCommands are those that the scripts use and Check has no probe for.
func UntriedCommands() []string {
	tried := map[string]bool{}
	for _, p := range probes("p", listScripts.commands) {
		if len(p) > 0 {
			tried[p[0]] = true
		}
	}
	var untried []string
	for _, c := range listScripts.commands {
		if !tried[c] {
			untried = append(untried, c)
		}
	}
	return untried
}
