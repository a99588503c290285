package sluice

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// breaker stops asking. After `most` failures in a row it is open: one call in
// each `rest` passes as a probe; an answer closes it.
type breaker struct {
	most   int32
	rest   time.Duration
	failed int32 // in a row; atomic
	mu     sync.Mutex
	tryAt  time.Time
}

func (b *breaker) mayAsk() bool {
	if b.most <= 0 || atomic.LoadInt32(&b.failed) < b.most {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Before(b.tryAt) {
		return false
	}
	b.tryAt = now.Add(b.rest)
	return true
}

func (b *breaker) good() {
	if atomic.LoadInt32(&b.failed) != 0 {
		atomic.StoreInt32(&b.failed, 0)
	}
}

func (b *breaker) bad() {
	b.mu.Lock()
	defer b.mu.Unlock()
	failed := atomic.LoadInt32(&b.failed)
	if failed < b.most {
		failed = atomic.AddInt32(&b.failed, 1)
	}
	if failed >= b.most {
		b.tryAt = time.Now().Add(b.rest)
	}
}

// mostCallers is how many callers an allowance remembers. The oldest window
// gives way.
const mostCallers = 10000

// allowance is `limit` units for each caller in a window that begins with its
// first unit. All windows have the same length, so `order` is that of their
// ends.
type allowance struct {
	limit   int64
	window  time.Duration
	mu      sync.Mutex
	windows map[[2]string]*list.Element
	order   *list.List
}

type window struct {
	caller [2]string
	ends   time.Time
	used   int64
}

type taken struct {
	allowed          bool
	limit, remaining int64
	reset, retry     time.Duration // retry 0: it never fits
}

func newAllowance(limit int64, length time.Duration) *allowance {
	return &allowance{limit: limit, window: length,
		windows: map[[2]string]*list.Element{}, order: list.New()}
}

func (a *allowance) take(caller [2]string, cost int64) taken {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	w := a.windowOf(caller, now)
	t := taken{limit: a.limit, reset: w.ends.Sub(now)}
	t.allowed = cost <= a.limit-w.used
	if t.allowed {
		w.used += cost
	} else if cost <= a.limit {
		t.retry = t.reset
	}
	t.remaining = a.limit - w.used
	return t
}

func (a *allowance) windowOf(caller [2]string, now time.Time) *window {
	for first := a.order.Front(); first != nil; first = a.order.Front() {
		w := first.Value.(*window)
		if w.ends.After(now) && a.order.Len() < mostCallers {
			break
		}
		if w.ends.After(now) && a.windows[caller] != nil {
			break // full, but this caller has a place
		}
		a.order.Remove(first)
		delete(a.windows, w.caller)
	}
	if found := a.windows[caller]; found != nil {
		return found.Value.(*window)
	}
	w := &window{caller: caller, ends: now.Add(a.window)}
	a.windows[caller] = a.order.PushBack(w)
	return w
}
