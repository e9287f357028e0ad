package durable

import "time"

// memoryKeys are the keys of Unique that somebody has, or has had.
type memoryKeys struct {
	all   map[string]*memoryKey
	limit int // beyond so many, those that are over are looked for
}

// memoryKey is one of them: the holder's as long as its state says so, and nobody else's before until.
type memoryKey struct {
	holder *memoryJob // nil: it has ended
	id     string     // of the holder, also when it has ended
	until  time.Time  // the end of Unique.Window or After
}

func (k *memoryKey) taken(now time.Time) bool {
	return k.holder != nil && k.holder.unique.blocks(k.holder.state) || k.until.After(now)
}

// holder tells whether somebody else than j has a key, and who. Nil is nobody.
func (m *memoryKeys) holder(key string, j *memoryJob, now time.Time) (id string, taken bool) {
	k := m.all[key]
	if k == nil || j != nil && k.holder == j || !k.taken(now) {
		return "", false
	}
	return k.id, true
}

// give gives a new job its key, which must be free.
func (m *memoryKeys) give(j *memoryJob, now time.Time) {
	if j.unique != nil {
		m.trim(now)
		m.all[j.unique.Key] = &memoryKey{holder: j, id: j.id, until: now.Add(j.unique.Window.Truncate(millisecond))}
	}
}

// giveAgain gives a job that comes back its key, which must be free or its own.
func (m *memoryKeys) giveAgain(j *memoryJob) {
	if j.unique != nil && m.own(j) == nil {
		m.all[j.unique.Key] = &memoryKey{holder: j, id: j.id}
	}
}

// complete keeps the key of a job that has completed for a while.
func (m *memoryKeys) complete(j *memoryJob, now time.Time) {
	if k := m.own(j); k != nil {
		if end := now.Add(j.unique.After.Truncate(millisecond)); end.After(k.until) {
			k.until = end
		}
	}
}

// free takes its key from a job that has ended.
func (m *memoryKeys) free(j *memoryJob, now time.Time) {
	if k := m.own(j); k != nil {
		k.holder = nil
		if !k.until.After(now) {
			delete(m.all, j.unique.Key)
		}
	}
}

// own is the key that a job holds; nil: none.
func (m *memoryKeys) own(j *memoryJob) *memoryKey {
	if j.unique != nil {
		if k := m.all[j.unique.Key]; k != nil && k.holder == j {
			return k
		}
	}
	return nil
}

// trim drops the keys that are over, when there may be as many of them as of the others.
func (m *memoryKeys) trim(now time.Time) {
	if len(m.all) < m.limit {
		return
	}
	for key, k := range m.all {
		if k.holder == nil && !k.until.After(now) {
			delete(m.all, key)
		}
	}
	m.limit = max(100, 2*len(m.all))
}
