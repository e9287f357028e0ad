package durable

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// reply is what is left of a script's answer; reading takes from the front. What is missing
// or of another kind reads as zero: an answer is from a script of ours or it is nothing.
type reply []any

// decodeReply takes the code off an answer.
func decodeReply(got any) (code string, rest reply, err error) {
	all, ok := got.([]any)
	if !ok || len(all) == 0 {
		return "", nil, fmt.Errorf("%w: the answer is no answer of a script: %T", ErrInDoubt, got)
	}
	code, ok = all[0].(string)
	if !ok {
		return "", nil, fmt.Errorf("%w: the answer begins with %T", ErrInDoubt, all[0])
	}
	return code, all[1:], nil
}

func (r *reply) next() any {
	if len(*r) == 0 {
		return nil
	}
	v := (*r)[0]
	*r = (*r)[1:]
	return v
}

// text takes a string.
func (r *reply) text() string {
	switch v := r.next().(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// int takes a whole number.
func (r *reply) int() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// refusal is the error for the codes that mean the same in every script; nil for others.
func (r *reply) refusal(code string) error {
	switch code {
	case replyBadKey:
		key, is, wanted := r.text(), r.text(), r.text()
		return fmt.Errorf("%w: key %q holds a %s, not a %s", ErrBadKey, key, is, wanted)
	case replyWire:
		return fmt.Errorf("%w: the queue is of wire version %s, this library speaks %d", ErrNotExecuted, r.text(), wireVersion)
	case replyUnknown:
		return ErrNoSender
	case replyOld:
		return ErrOutdated
	case replyFenced:
		return ErrFenced
	case replyExpired:
		return ErrLeaseExpired
	}
	return nil
}

// appended decodes the answer to an append or a close, which ends with the backlog.
func (r *reply) appended() (Appended, handed, error) {
	a := Appended{Taken: int(r.int())}
	refused, err := decodeRefusals(r.text())
	if err != nil {
		return Appended{}, handed{}, err
	}
	a.Refused = refused
	a.Gap = r.int() == 1
	a.Backlog = r.int()
	a.Paused = r.int() == 1
	first := handed{jobs: int(r.int()), fence: r.int()}
	a.Replicas = int(r.int())
	return a, first, nil
}

// decodeRefusals reads "3D,17K,20U2:ab,": positions with their codes, and a holder after its length.
func decodeRefusals(text string) ([]Refusal, error) {
	var refusals []Refusal
	for rest := text; rest != ""; {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 1 {
			return nil, fmt.Errorf("%w: %q is no refusal", ErrInDoubt, rest)
		}
		pos, err := strconv.Atoi(rest[:digits])
		if err != nil {
			return nil, fmt.Errorf("%w: %q is no refusal", ErrInDoubt, rest)
		}
		one := Refusal{Pos: pos, Code: RefusalCode(rest[digits])}
		rest = rest[digits+1:]
		if one.Code == RefusedUnique {
			size, after, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(size)
			if err != nil || n < 0 || n > len(after) {
				return nil, fmt.Errorf("%w: %q names no holder", ErrInDoubt, rest)
			}
			one.Holder, rest = after[:n], after[n:]
		}
		var ended bool
		if rest, ended = strings.CutPrefix(rest, ","); !ended {
			return nil, fmt.Errorf("%w: a refusal does not end before %q", ErrInDoubt, rest)
		}
		refusals = append(refusals, one)
	}
	return refusals, nil
}

// claimed decodes the answer to a claim with this token.
func (r *reply) claimed(code, token string) (Claimed, error) {
	var c Claimed
	switch code {
	case "L":
		c.Status, c.Drained = ClaimJobs, true
	case "J", "E", "M", "P", "R", "T":
		c.Status = ClaimStatus(code[0])
	default:
		return Claimed{}, fmt.Errorf("%w: unknown answer %q to a claim", ErrInDoubt, code)
	}
	c.NextDue = span(r.int())
	c.Dropped = int(r.int())
	c.Corrupt = int(r.int())
	c.Gap = r.int() == 1
	fence, n, expired, lives := r.int(), int(r.int()), int(r.int()), int(r.int())
	words := len(*r) - 3*n - expired - 2*lives
	if n < 0 || expired < 0 || lives < 0 || max(n, expired, lives) > len(*r) || words < 0 || words%3 != 0 || (n > 0) != (c.Status == ClaimJobs) {
		return Claimed{}, fmt.Errorf("%w: answer %q with %d claims in %d words", ErrInDoubt, code, n, len(*r))
	}
	claims := make([]Claim, n)
	c.Jobs = make([]*Claim, n)
	for i := range claims {
		claims[i] = Claim{
			Token:      token,
			ID:         r.text(),
			Payload:    []byte(r.text()),
			Kind:       r.text(),
			Deliveries: 1,
			Fence:      fence + int64(i),
		}
		c.Jobs[i] = &claims[i]
	}
	for range expired {
		c.Expired = append(c.Expired, r.text())
	}
	for k := range lives { // few: what was appended together is claimed together
		first, life, end := int(r.int()), r.text(), n
		if k+1 < lives {
			next := *r
			end = min(int(next.int()), n)
		}
		for i := max(first, 0); i < end; i++ {
			claims[i].Life = life
		}
	}
	for len(*r) > 0 {
		i, headers, numbers := r.int(), r.text(), r.text()
		if i < 0 || i >= int64(n) {
			return Claimed{}, fmt.Errorf("%w: more of claim %d of %d", ErrInDoubt, i, n)
		}
		claims[i].Headers = []byte(headers)
		if err := claims[i].decodeNumbers(numbers); err != nil {
			return Claimed{}, err
		}
	}
	return c, nil
}

// swept decodes the beginning of the answer to a sweep.
func (r *reply) swept() Swept {
	return Swept{
		Fenced:   int(r.int()),
		Returned: int(r.int()),
		Dead:     int(r.int()),
		Trimmed:  int(r.int()),
		More:     r.int() == 1,
	}
}

// stats decodes sizes and counters.
func (r *reply) stats() Stats {
	stats := Stats{
		Pending:    r.int(),
		Scheduled:  r.int(),
		Processing: r.int(),
		Dead:       r.int(),
		Corrupt:    r.int(),
		Completed:  r.int(),
		Consumers:  r.int(),
		Counters:   make(map[string]int64),
	}
	stats.Intake, stats.Consumption = r.pause(), r.pause()
	for len(*r) > 1 {
		name := r.text()
		stats.Counters[name] = r.int()
	}
	return stats
}

// boundToken ends the token of a claim of a job whose end depends on a retention, or on a unique key.
const boundToken = "+"

// decodeNumbers reads "attempts crashes deliveries max_attempts timeout marks".
func (c *Claim) decodeNumbers(text string) error {
	var numbers [6]int
	for i := range numbers {
		one, rest, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(one)
		if err != nil {
			return fmt.Errorf("%w: %q is no number of a claim", ErrInDoubt, one)
		}
		numbers[i], text = n, rest
	}
	c.Attempts, c.Crashes, c.Deliveries, c.MaxAttempts = numbers[0], numbers[1], numbers[2], numbers[3]
	c.Timeout, c.Followed = span(int64(numbers[4])), numbers[5]&1 != 0
	if numbers[5]&2 != 0 {
		c.Token += boundToken
	}
	return nil
}

// errCodes is an answer with the wrong number of codes.
var errCodes = errors.New("the answer has not one code for each outcome")

// settled decodes the answer to a settle of n outcomes.
func (r *reply) settled(n int) (Settled, error) {
	codes := r.text()
	if len(codes) != n {
		return Settled{}, fmt.Errorf("%w: %w", ErrInDoubt, errCodes)
	}
	s := Settled{Codes: make([]Code, n), Trimmed: int(r.int()), Gap: r.int() == 1}
	for i := range s.Codes {
		s.Codes[i] = Code(codes[i])
	}
	return s, nil
}
