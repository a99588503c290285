package sluice

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rules say what middleware sends to the daemon, and what it does with the
// verdict. All members are optional.
type Rules struct {
	// Client is the client; by default one with the settings of the
	// environment.
	Client *Client

	// Who asks. An empty text is not sent. Without User and Org the caller is
	// anonymous, and counted by address. IP is the peer by default; behind a
	// proxy use ForwardedFor.
	User, Org, Plan, Role, IP func(*http.Request) string

	// Cost of a request; nil is what the policy says.
	Cost func(*http.Request) Cost

	// Headers are names of request headers that the policy reads, besides
	// User-Agent and Accept-Language. The daemon trusts them: name no header
	// that a client could use to become another user.
	Headers []string

	// Skip: true means that the request is not checked.
	Skip func(*http.Request) bool

	// Hold is how long the cost is held; 0 is not at all. A held cost is
	// settled when the response has ended. While it is sent, the hold is
	// extended.
	Hold func(*http.Request) time.Duration

	// Settle is the actual cost of a request with a hold, by its response. Nil:
	// a status of 500 or above gives everything back, any other settles what
	// was held. Passage.SetCost in a handler comes first.
	Settle func(r *http.Request, status int, header http.Header) Cost

	// OnDenied answers a denied request instead of the policy. The headers of
	// the verdict are added, except Content-Type.
	OnDenied func(http.ResponseWriter, *http.Request, *Verdict)
}

// Passage is a checked request. FromContext finds it.
type Passage struct {
	Verdict *Verdict
	mu      sync.Mutex
	cost    Cost
}

// SetCost sets the cost with which the hold is settled when the response has
// ended.
func (p *Passage) SetCost(cost Cost) {
	p.mu.Lock()
	p.cost = cost
	p.mu.Unlock()
}

// Cost is what SetCost has set.
func (p *Passage) Cost() Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cost
}

type passageKey struct{}

// NewContext is a context with the passage of a request.
func NewContext(ctx context.Context, p *Passage) context.Context {
	return context.WithValue(ctx, passageKey{}, p)
}

// FromContext is the passage of a request that middleware has checked, or nil.
func FromContext(ctx context.Context) *Passage {
	p, _ := ctx.Value(passageKey{}).(*Passage)
	return p
}

// Middleware checks each request before the handler gets it. It panics if Rules
// has no Client and the environment is invalid.
func Middleware(rules Rules) func(http.Handler) http.Handler {
	if rules.Client == nil {
		client, err := New(Options{})
		if err != nil {
			panic(err)
		}
		rules.Client = client
	}
	rules.Headers = append([]string{"User-Agent", "Accept-Language"},
		rules.Headers...)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rules.serve(w, r, next)
		})
	}
}

func (rules *Rules) serve(w http.ResponseWriter, r *http.Request,
	next http.Handler) {
	if rules.Skip != nil && rules.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	check := rules.check(w, r)
	verdict, err := rules.Client.Check(r.Context(), check)
	if err == nil && verdict.Allowed && verdict.Wait > 0 {
		err = sleep(r.Context(), verdict.Wait)
	}
	switch {
	case err != nil:
		rules.fail(w, r, err)
	case !verdict.Allowed:
		rules.deny(w, r, verdict)
	default:
		rules.pass(w, r, next, verdict, time.Duration(check.Hold))
	}
}

func (rules *Rules) check(w http.ResponseWriter, r *http.Request) Check {
	check := Check{Method: r.Method, Path: pathOf(r),
		RequestID: requestID(w, r), Headers: map[string]string{}}
	for _, fact := range [...]struct {
		of func(*http.Request) string
		to *string
	}{{rules.User, &check.User}, {rules.Org, &check.Org},
		{rules.Plan, &check.Plan}, {rules.Role, &check.Role},
		{rules.IP, &check.IP}} {
		if fact.of != nil {
			*fact.to = fact.of(r)
		}
	}
	if rules.IP == nil {
		check.IP = peerOf(r)
	}
	for _, name := range rules.Headers {
		if values := r.Header.Values(name); len(values) > 0 {
			check.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	if rules.Cost != nil {
		check.Cost = rules.Cost(r)
	}
	if rules.Hold != nil {
		check.Hold = Duration(rules.Hold(r))
	}
	return check
}

// pathOf is the path and query as the client sent them.
func pathOf(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// requestID is the id that the application or the client has given, if it is a
// plain word.
func requestID(w http.ResponseWriter, r *http.Request) string {
	id := w.Header().Get("X-Request-Id")
	if id == "" {
		id = r.Header.Get("X-Request-Id")
	}
	if len(id) > 128 || strings.IndexFunc(id, func(c rune) bool {
		return c <= ' ' || c > '~'
	}) >= 0 {
		return ""
	}
	return id
}

func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || net.ParseIP(strings.SplitN(host, "%", 2)[0]) == nil {
		return "" // a unix socket has no address
	}
	return host
}

// ForwardedFor is the address that `hops` proxies in front of the application
// vouch for: the one that many from the right in X-Forwarded-For. Addresses
// further left may come from the client.
func ForwardedFor(hops int) func(*http.Request) string {
	return func(r *http.Request) string {
		all := strings.Split(
			strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		if hops < 1 || hops > len(all) {
			return ""
		}
		return strings.TrimSpace(all[len(all)-hops])
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail answers 500: the daemon refused the check, which is a fault of the setup.
// A client that has gone away gets nothing.
func (rules *Rules) fail(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, context.Canceled) {
		rules.Client.report(err)
	}
	http.Error(w, http.StatusText(http.StatusInternalServerError),
		http.StatusInternalServerError)
}

func (rules *Rules) deny(w http.ResponseWriter, r *http.Request, v *Verdict) {
	if rules.OnDenied != nil {
		began := &response{ResponseWriter: w, verdict: v}
		rules.OnDenied(began.whole(), r, v)
		began.begin(http.StatusOK)
		return
	}
	v.SetHeaders(w.Header())
	body := v.BodyText()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(v.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client has gone away
	}
}

func (rules *Rules) pass(w http.ResponseWriter, r *http.Request,
	next http.Handler, v *Verdict, lifetime time.Duration) {
	passage := &Passage{Verdict: v}
	began := &response{ResponseWriter: w, verdict: v}
	r = r.WithContext(NewContext(r.Context(), passage))
	if v.Hold == "" {
		next.ServeHTTP(began.whole(), r)
		began.begin(http.StatusOK)
		return
	}
	held := rules.Client.Keep(v, lifetime)
	panics := true
	defer func() {
		// A client that goes away early pays: it must not choose the cost.
		// The handler may panic because of that.
		if panics && r.Context().Err() == nil {
			held.End(nil, http.StatusInternalServerError)
			return
		}
		began.begin(http.StatusOK)
		cost := passage.Cost()
		if cost == nil && rules.Settle != nil && !panics {
			cost = rules.Settle(r, began.status, w.Header())
		}
		held.End(cost, began.status)
	}()
	next.ServeHTTP(began.whole(), r)
	panics = false
}

func (c *Client) report(err error) {
	if c.options.OnError != nil {
		c.options.OnError(err)
	}
}

// pending counts what still runs. Unlike a sync.WaitGroup, it may begin again
// while another goroutine waits.
type pending struct {
	mu    sync.Mutex
	count int
	done  chan struct{} // closed when count is 0 again
}

func (p *pending) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == 0 {
		p.done = make(chan struct{})
	}
	p.count++
}

func (p *pending) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count--; p.count == 0 {
		close(p.done)
	}
}

func (p *pending) wait() {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Held is a hold that is extended until it ends.
type Held struct {
	client *Client
	id     string
	stop   chan struct{}
	once   sync.Once
}

// Keep extends the hold of a verdict until End is called. Middleware uses it.
func (c *Client) Keep(v *Verdict, lifetime time.Duration) *Held {
	h := &Held{client: c, id: v.Hold, stop: make(chan struct{})}
	if h.id == "" || lifetime <= 0 {
		return h
	}
	every := lifetime
	if v.HoldExpires > 0 && v.HoldExpires < every {
		every = v.HoldExpires
	}
	if every /= 2; every < 50*time.Millisecond {
		every = 50 * time.Millisecond
	}
	go h.extend(every, lifetime)
	return h
}

func (h *Held) extend(every, lifetime time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-ticker.C:
			if _, err := h.client.Extend(context.Background(), h.id,
				lifetime); err != nil {
				h.client.report(err)
			}
		}
	}
}

// End ends the hold, in the background: with the cost, or if that is nil, by the
// status of the response: 500 and above gives everything back. Client.Close
// waits for it. A hold that could not be ended expires.
func (h *Held) End(cost Cost, status int) {
	h.once.Do(func() {
		close(h.stop)
		if h.id == "" {
			return
		}
		h.client.ending.begin()
		go func() {
			defer h.client.ending.end()
			verb := "settle"
			if cost == nil && status >= 500 {
				verb = "release"
			}
			if _, err := h.client.end(context.Background(), h.id, verb,
				endOfHold{Cost: cost, Status: status}); err != nil {
				h.client.report(err)
			}
		}()
	})
}
