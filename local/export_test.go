package local

// DealHands makes the hands of a pool that has no task yet that large.
func (p *Pool) DealHands(of int) { p.front.handful = of }

// InHand tells how many jobs on the pool's hand have not begun, and how many ends on it are not collected.
func (p *Pool) InHand() (left, ended int) {
	h := p.front.hand.Load()
	if h == nil {
		return 0, 0
	}
	word := h.word.Load()
	return len(h.left(word)), int(word >> begunBits)
}

// BusyAsHeld reports whether the time counts as busy exactly while something is held.
func (p *Pool) BusyAsHeld() bool {
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	p.front.collect()
	return p.front.busy.running == (p.front.held > 0)
}
