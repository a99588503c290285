// Package sluice asks a Sluice daemon whether a request, a job or a unit may
// pass, and limits handlers of net/http.
//
//	client, err := sluice.New(sluice.Options{})
//	verdict, err := client.Check(ctx, sluice.Check{Path: "/ask", User: "ann"})
//
// Rules of all calls:
//
//  1. A call ends within Options.Timeout, with connecting.
//  2. Check, CheckAll and Hold do not fail because the daemon is away:
//     Options.OnFailure decides. A failed Deny is 503, never 429.
//  3. A request is sent at most once.
//  4. The daemon refuses what is invalid: an *Error, whatever OnFailure says.
//
// clients/conformance.json is what all clients do alike.
package sluice

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// OnFailure says what a check is without a verdict of the daemon.
type OnFailure int

const (
	Allow OnFailure = iota // allowed
	Deny                   // denied with 503
	Local                  // limited by an allowance of this process
)

// Failure is why the daemon did not decide.
type Failure string

const (
	Timeout     Failure = "timeout"
	Unreachable Failure = "unreachable"
	Malformed   Failure = "malformed" // the answer is not a verdict
	BadStatus   Failure = "status"    // 5xx, 3xx or 429
	Open        Failure = "open"      // the breaker is open: it was not asked
)

// Error says how a call failed. If Failure is empty, the daemon refused the
// call: Status, Code and Detail are those of its answer.
type Error struct {
	Failure      Failure
	Status       int // 0 without an answer
	Code, Detail string
	cause        error
	text         string
}

func (e *Error) Error() string { return "sluice: " + e.text }

// Unwrap is the error of the connection, if there is one.
func (e *Error) Unwrap() error { return e.cause }

func malformed(text string) *Error {
	return &Error{Failure: Malformed, text: text}
}

// Options are the settings of a client. The zero value is good.
type Options struct {
	// URL is where the daemon listens: http://HOST:PORT, https://HOST:PORT or
	// unix:PATH. Default: $SLUICE_URL, else http://127.0.0.1:8080.
	URL string
	// Token is the access_token of the daemon. Default: $SLUICE_TOKEN.
	Token string
	// Timeout of a call. Default: $SLUICE_DEADLINE_MS, else 250 ms.
	Timeout time.Duration

	OnFailure OnFailure // default: Allow
	// With OnFailure Local, each caller may take LocalLimit units in each
	// LocalWindow.
	LocalLimit  int64
	LocalWindow time.Duration

	// After BreakerFailures failures in a row (default 5; -1: never) the
	// daemon is asked once per BreakerRest (default 1 s).
	BreakerFailures int
	BreakerRest     time.Duration

	// MaxConns is how many connections are open at once; further calls wait
	// within their time-out. Default 128.
	MaxConns int
	TLS      *tls.Config
	// OnError is called with each failure of a check, and of middleware.
	OnError func(error)
}

// Client is a client of one daemon. It may be shared by all goroutines.
type Client struct {
	transport *transport
	breaker   breaker
	allowance *allowance
	options   Options
	ending    pending // holds that middleware ends
}

// New makes a client. It does not connect.
func New(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	where, err := parseAddress(o.URL, o.TLS)
	if err != nil {
		return nil, err
	}
	c := &Client{options: o, transport: newTransport(where, o.Token, o.MaxConns)}
	c.breaker.most, c.breaker.rest = int32(o.BreakerFailures), o.BreakerRest
	if o.OnFailure == Local {
		c.allowance = newAllowance(o.LocalLimit, o.LocalWindow)
	}
	return c, nil
}

// complete fills in defaults, and refuses what is invalid.
func (o *Options) complete() error {
	if o.URL == "" {
		o.URL = os.Getenv("SLUICE_URL")
	}
	if o.URL == "" {
		o.URL = "http://127.0.0.1:8080"
	}
	if o.Token == "" {
		o.Token = os.Getenv("SLUICE_TOKEN")
	}
	if text := os.Getenv("SLUICE_DEADLINE_MS"); o.Timeout == 0 && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("sluice: SLUICE_DEADLINE_MS must be a whole "+
				"number of at least 1, not %q", text)
		}
		o.Timeout = ms(int64(n))
	}
	if o.Timeout == 0 {
		o.Timeout = 250 * time.Millisecond
	}
	if o.Timeout < 0 {
		return fmt.Errorf("sluice: Timeout is %v; it must be above 0", o.Timeout)
	}
	if o.OnFailure < Allow || o.OnFailure > Local {
		return errors.New("sluice: OnFailure must be Allow, Deny or Local")
	}
	if o.OnFailure == Local && (o.LocalLimit < 1 || o.LocalWindow <= 0) {
		return errors.New("sluice: OnFailure Local needs LocalLimit and " +
			"LocalWindow, such as 100 and time.Minute")
	}
	setDefault(&o.BreakerFailures, 5)
	setDefault(&o.MaxConns, 128)
	if o.BreakerRest == 0 {
		o.BreakerRest = time.Second
	}
	if o.MaxConns < 1 {
		return fmt.Errorf("sluice: MaxConns is %d; it must be at least 1",
			o.MaxConns)
	}
	if strings.ContainsAny(o.Token, "\r\n") {
		return errors.New("sluice: Token has a line break")
	}
	return nil
}

func setDefault(n *int, value int) {
	if *n == 0 {
		*n = value
	}
}

// Close waits for holds that middleware is ending, and closes idle
// connections. The client can still be used.
func (c *Client) Close() {
	c.ending.wait()
	c.transport.close()
}

// ask makes one call. It returns the body of the answer, which `read` accepts.
func (c *Client) ask(ctx context.Context, method, path string, value interface{},
	wait Duration, read func([]byte) error) error {
	var body []byte
	if value != nil {
		var err error
		if body, err = json.Marshal(value); err != nil {
			return fmt.Errorf("sluice: %w", err)
		}
	}
	if !c.breaker.mayAsk() {
		return &Error{Failure: Open, text: "the daemon did not answer the " +
			"last calls; it is asked again shortly"}
	}
	limit := time.Now().Add(c.options.Timeout + time.Duration(wait))
	status, text, err := c.transport.exchange(ctx, limit, method, path, body)
	if err == nil {
		err = readAnswer(status, text, read)
	}
	var failed *Error
	switch {
	case err == nil:
		c.breaker.good()
	case !errors.As(err, &failed): // the caller has cancelled
	case failed.Failure == "":
		c.breaker.good()
	default:
		c.breaker.bad()
	}
	return err
}

func readAnswer(status int, text []byte, read func([]byte) error) error {
	if status == http.StatusOK || status == http.StatusAccepted {
		return read(text)
	}
	var problem struct{ Code, Detail string }
	_ = json.Unmarshal(text, &problem) // an answer may have no such body
	e := &Error{Status: status, Code: problem.Code, Detail: problem.Detail,
		text: fmt.Sprintf("the daemon answered %d", status)}
	if problem.Detail != "" {
		e.text += ": " + problem.Detail
	}
	if status < 400 || status >= 500 || status == http.StatusTooManyRequests {
		e.Failure = BadStatus
	}
	return e
}

// instead is the verdict of a check that the daemon did not decide. A refusal
// stays an error: to let it pass would be a way round the limits.
func (c *Client) instead(err error, checks []Check) ([]*Verdict, error) {
	var failed *Error
	if !errors.As(err, &failed) || failed.Failure == "" {
		return nil, err
	}
	if c.options.OnError != nil {
		c.options.OnError(err)
	}
	verdicts := make([]*Verdict, len(checks))
	for i := range checks {
		id := checks[i].RequestID
		switch c.options.OnFailure {
		case Local:
			verdicts[i] = local(failed.Failure, id, c.allowance.take(
				checks[i].caller(), checks[i].Cost.total()))
		case Deny:
			verdicts[i] = unavailable(failed.Failure, id)
		default:
			verdicts[i] = passed(failed.Failure, id)
		}
	}
	return verdicts, nil
}

// Check checks one request and takes its cost.
func (c *Client) Check(ctx context.Context, check Check) (*Verdict, error) {
	var verdict *Verdict
	err := c.ask(ctx, "POST", "/v1/check", &check, check.Wait,
		func(text []byte) (err error) {
			verdict, err = parseVerdict(text)
			return err
		})
	if err == nil {
		return verdict, nil
	}
	verdicts, err := c.instead(err, []Check{check})
	if err != nil {
		return nil, err
	}
	return verdicts[0], nil
}

// CheckAll checks up to 1,000 requests at once. The verdicts are in their order.
func (c *Client) CheckAll(ctx context.Context, checks []Check) ([]*Verdict, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	var verdicts []*Verdict
	err := c.ask(ctx, "POST", "/v1/check", checks, 0,
		func(text []byte) (err error) {
			verdicts, err = parseVerdicts(text, len(checks))
			return err
		})
	if err != nil {
		return c.instead(err, checks)
	}
	return verdicts, nil
}

// Hold checks a request and holds its cost for a time. End the hold with Settle
// or Release; Verdict.Hold is its id.
func (c *Client) Hold(ctx context.Context, check Check, lifetime time.Duration) (
	*Verdict, error) {
	check.Hold = Duration(lifetime)
	return c.Check(ctx, check)
}

// HoldState is what the daemon says about a hold: State is held, settled,
// released or expired; Again is true if it had ended before.
type HoldState struct {
	Hold   string
	State  string
	Again  bool
	Limits []HeldLimit
}

// HeldLimit is what a hold took from one limit.
type HeldLimit struct {
	Name      string
	Held      *int64
	Cost      *int64
	Remaining *int64
}

type endOfHold struct {
	Cost   Cost     `json:"cost,omitempty"`
	Status int      `json:"status,omitempty"`
	Hold   Duration `json:"hold,omitempty"`
}

func (c *Client) end(ctx context.Context, hold, verb string, body endOfHold) (
	HoldState, error) {
	var state HoldState
	if hold == "" {
		return state, nil
	}
	err := c.ask(ctx, "POST", "/v1/holds/"+url.PathEscape(hold)+"/"+verb, body,
		0, into(&state))
	return state, err
}

// Settle ends a hold with the actual cost; nil is the held cost. Without a hold,
// which is what an allowed check has while the daemon is away, it does nothing.
func (c *Client) Settle(ctx context.Context, hold string, cost Cost) (HoldState, error) {
	return c.end(ctx, hold, "settle", endOfHold{Cost: cost})
}

// Release ends a hold and gives everything back.
func (c *Client) Release(ctx context.Context, hold string) (HoldState, error) {
	return c.end(ctx, hold, "release", endOfHold{})
}

// Extend sets the lifetime of a hold, from now.
func (c *Client) Extend(ctx context.Context, hold string, lifetime time.Duration) (
	HoldState, error) {
	return c.end(ctx, hold, "extend", endOfHold{Hold: Duration(lifetime)})
}

// UsageReport is what was used, without a check.
type UsageReport struct {
	User           string `json:"user,omitempty"`
	Org            string `json:"org,omitempty"`
	Plan           string `json:"plan,omitempty"`
	Limit          string `json:"limit,omitempty"`
	Key            string `json:"key,omitempty"`
	Amount         int64  `json:"amount"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	At             string `json:"at,omitempty"`
}

// Report reports usage: up to 1,000 reports. One with an IdempotencyKey may be
// repeated.
func (c *Client) Report(ctx context.Context, reports ...UsageReport) error {
	var value interface{} = reports
	if len(reports) == 0 {
		return nil
	}
	if len(reports) == 1 {
		value = reports[0]
	}
	var answer json.RawMessage
	return c.ask(ctx, "POST", "/v1/usage", value, 0, into(&answer))
}

// Usage is the meters of a subject. Raw is the whole answer.
type Usage struct {
	Scope, ID string
	Meters    []Meter
	Raw       json.RawMessage `json:"-"`
}

// Meter is the usage of one limit. Numbers are nil if the limit has none.
type Meter struct {
	Name, Kind, Unit, Plan, Scope, ID string
	Used                              int64
	Limit, Remaining                  *int64
	ResetMs                           *int64 `json:"reset_ms"`
}

// Usage reads the meters of a subject: Usage(ctx, "org", "acme").
func (c *Client) Usage(ctx context.Context, scope, id string) (*Usage, error) {
	var usage Usage
	err := c.ask(ctx, "GET", "/v1/usage/"+url.PathEscape(scope)+"/"+
		url.PathEscape(id), nil, 0, func(text []byte) error {
		usage.Raw = text
		return into(&usage)(text)
	})
	if err != nil {
		return nil, err
	}
	return &usage, nil
}

// Explanation is a verdict with its reasons. Raw is the whole answer.
type Explanation struct {
	Verdict *Verdict
	Explain string
	Raw     json.RawMessage
}

// Explain says what Check would answer, and why. It takes nothing.
func (c *Client) Explain(ctx context.Context, check Check) (*Explanation, error) {
	var said Explanation
	err := c.ask(ctx, "POST", "/v1/explain", &check, 0,
		func(text []byte) (err error) {
			var more struct{ Explain string }
			if err = into(&more)(text); err != nil {
				return err
			}
			said.Raw, said.Explain = text, more.Explain
			said.Verdict, err = parseVerdict(text)
			return err
		})
	if err != nil {
		return nil, err
	}
	return &said, nil
}

// into reads an answer as JSON.
func into(value interface{}) func([]byte) error {
	return func(text []byte) error {
		if err := json.Unmarshal(text, value); err != nil {
			return malformed("the answer is not what it should be: " +
				err.Error())
		}
		return nil
	}
}
