package durable

import "fmt"

// streamClaimWords is how many words of an answer describe one claim.
const streamClaimWords = 12

// streamClaimed decodes the answer to a claim with this token.
func (r *reply) streamClaimed(code, token string) (Claimed, error) {
	var c Claimed
	switch code {
	case "J", "E", "M", "P", "R":
		c.Status = ClaimStatus(code[0])
	default:
		return Claimed{}, fmt.Errorf("%w: unknown answer %q to a claim", ErrInDoubt, code)
	}
	c.NextDue = span(r.int())
	c.Dropped = int(r.int())
	c.Corrupt = int(r.int())
	c.Gap = r.int() == 1
	for range r.int() {
		c.Expired = append(c.Expired, r.text())
	}
	n := len(*r) / streamClaimWords
	if len(*r)%streamClaimWords != 0 || (n > 0) != (c.Status == ClaimJobs) {
		return Claimed{}, fmt.Errorf("%w: answer %q with %d words", ErrInDoubt, code, len(*r))
	}
	claims := make([]Claim, n)
	c.Jobs = make([]*Claim, 0, n)
	for i := range claims {
		claims[i] = Claim{
			Token:       token,
			ID:          r.text(),
			Kind:        r.text(),
			Payload:     []byte(r.text()),
			Headers:     []byte(r.text()),
			Attempts:    int(r.int()),
			Crashes:     int(r.int()),
			Deliveries:  int(r.int()),
			Fence:       r.int(),
			MaxAttempts: int(r.int()),
			Timeout:     span(r.int()),
			Followed:    r.int() == 1,
			Life:        r.text(),
		}
		c.Jobs = append(c.Jobs, &claims[i])
	}
	return c, nil
}

// streamRecordWords is how many words of an answer describe one record.
const streamRecordWords = recordWords + 4

// streamRecord takes one record.
func (r *reply) streamRecord() Record {
	record := r.record()
	record.Life = r.text()
	record.Expires = r.time()
	record.Cancelling = r.int() == 1
	record.UniqueKey = r.text()
	return record
}
