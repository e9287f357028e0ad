package cron

// agenda is a heap of schedules by when to look at them.
type agenda []*schedule

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push is for package heap.
func (a *agenda) Push(x any) { *a = append(*a, x.(*schedule)) }

// Pop is for package heap.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	return e
}
