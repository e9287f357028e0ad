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
