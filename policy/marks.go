package policy

import "fmt"

// Marks are two fill levels between which nothing changes: what is full stays full until
// it has drained to Low, what is not stays so until it has risen to High. With one mark
// alone, a queue that stands at it would be reported full and not full with every job.
//
// Marks decide; whoever sees the level keeps the state. local.FrontOptions and
// local.PoolOptions take Marks together with a hook, which is told of each turn once. For
// any other level, such as a queue's Pressure read now and then:
//
//	was := full
//	if full = marks.Full(was, queue.Pressure()); full != was { … }
//
// Zero fields mean the defaults: High 1, Low 0.5.
type Marks struct {
	// High is the share in use, above Low and at most 1, from which on it is full; 1.
	High float64
	// Low is the share in use, below High, down to which it must drain then; 0.5.
	Low float64
}

// WithDefaults fills in what is zero. Low is half of High then.
func (m Marks) WithDefaults() Marks {
	if m.High == 0 {
		m.High = 1
	}
	if m.Low == 0 {
		m.Low = m.High / 2
	}
	return m
}

// Validate reports marks that are out of range or in the wrong order, by name.
func (m Marks) Validate() error {
	m = m.WithDefaults()
	switch {
	case !(m.High > 0 && m.High <= 1): // so that NaN is refused
		return fmt.Errorf("policy: Marks.High is not between 0 and 1: %v", m.High)
	case !(m.Low > 0 && m.Low < m.High):
		return fmt.Errorf("policy: Marks.Low is not between 0 and High: %v", m.Low)
	}
	return nil
}

// Full tells whether it is full, given whether it was and the share now in use.
func (m Marks) Full(was bool, fill float64) bool {
	m = m.WithDefaults()
	if was {
		return fill > m.Low
	}
	return fill >= m.High
}
