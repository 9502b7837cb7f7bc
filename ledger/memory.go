package ledger

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory is a Store that ends with the process.
type Memory struct {
	opt Options

	mu     sync.Mutex // guards all below
	table  table
	closed bool
}

// NewMemory returns an empty Memory.
func NewMemory(opt Options) *Memory {
	opt = opt.withDefaults()
	return &Memory{opt: opt, table: newTable(opt.MaxEntries)}
}

// Get is described by [Store].
func (m *Memory) Get(ctx context.Context, keys []Key) (map[Key]string, error) {
	now := m.opt.Now()
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	found := make(map[Key]string)
	for _, k := range keys {
		if c, ok := m.table.get(k, now); ok {
			found[k] = c.value
			m.table.apply(change{key: k, op: opRenew, expires: now.Add(m.opt.TTL)})
		}
	}
	return found, nil
}

// Set is described by [Store].
func (m *Memory) Set(ctx context.Context, entries map[Key]string) error {
	changes, tooLong := m.opt.settings(entries)
	if err := m.apply(ctx, changes); err != nil {
		return err
	}
	return tooLong
}

// Delete is described by [Store].
func (m *Memory) Delete(ctx context.Context, keys []Key) error {
	return m.apply(ctx, deletions(keys))
}

// Len is described by [Store].
func (m *Memory) Len(ctx context.Context) (int, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	m.table.sweep(m.opt.Now())
	return len(m.table.entries), nil
}

// Empty reports whether there is no entry, not even one that has expired.
func (m *Memory) Empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.table.entries) == 0
}

// Close forgets everything.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.table = true, table{}
	return nil
}

func (m *Memory) apply(ctx context.Context, changes []change) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for _, c := range changes {
		m.table.apply(c)
	}
	m.table.sweep(m.opt.Now())
	return nil
}

// lock returns the function that unlocks m, or why m may not be used.
func (m *Memory) lock(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	return m.mu.Unlock, nil
}

// table holds the last change of each key, the oldest first.
type table struct {
	most    int
	entries map[Key]*list.Element
	order   *list.List // of *change
}

func newTable(most int) table {
	return table{most: most, entries: make(map[Key]*list.Element), order: list.New()}
}

// get returns the entry of k unless it has expired.
func (t *table) get(k Key, now time.Time) (change, bool) {
	e, ok := t.entries[k]
	if !ok || !now.Before(e.Value.(*change).expires) {
		return change{}, false
	}
	return *e.Value.(*change), true
}

// apply makes a change.
func (t *table) apply(c change) {
	if c.op == opDelete {
		t.remove(t.entries[c.key])
		return
	}
	if e, ok := t.entries[c.key]; ok && c.op == opRenew {
		e.Value.(*change).expires = c.expires
		t.order.MoveToBack(e)
	} else if c.op == opSet {
		t.put(c)
	}
}

// put keeps a change in the place of an earlier one, whatever it does. The
// oldest makes room.
func (t *table) put(c change) {
	t.remove(t.entries[c.key])
	t.entries[c.key] = t.order.PushBack(&c)
	if len(t.entries) > t.most {
		t.remove(t.order.Front())
	}
}

func (t *table) remove(e *list.Element) {
	if e != nil {
		delete(t.entries, t.order.Remove(e).(*change).key)
	}
}

// sweep removes what has expired.
func (t *table) sweep(now time.Time) {
	for e := t.order.Front(); e != nil; e = t.order.Front() {
		if now.Before(e.Value.(*change).expires) {
			return
		}
		t.remove(e)
	}
}

// take removes and returns the oldest changes, at most n.
func (t *table) take(n int) []change {
	var taken []change
	for e := t.order.Front(); e != nil && len(taken) < n; e = t.order.Front() {
		taken = append(taken, *e.Value.(*change))
		t.remove(e)
	}
	return taken
}
